"""The shell DOOR: what people type. Commands are thin; what they do lies in the rooms below."""
