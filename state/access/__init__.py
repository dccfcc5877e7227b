"""Authorization (docs/systems/metadata.md), delegation tokens, redaction of credentials.

authorizer, acl_filter   the StandardAuthorizer's rules, and the filters of ACL requests
delegation_tokens        owners, renewers and times of delegation tokens
redaction                removes passwords, tokens and secret settings from documents

A rule of `redaction` may become stricter, never weaker, because stored documents stay.
"""
