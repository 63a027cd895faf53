"""What traces tell, beside metrics and graph: functions of a Trace, without tensors."""
