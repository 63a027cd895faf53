"""The page: figures and text from traces, and the Gradio application around them."""
