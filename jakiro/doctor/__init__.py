"""Why a draft head accepts little: measurements of one head on texts of its target, and what they say."""
