"""The Kubernetes API: who may ask (access), one request (client), a view kept in step (reflector), this node's pods."""
