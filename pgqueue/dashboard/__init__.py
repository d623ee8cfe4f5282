"""The dashboard: what the queues do, in a browser, and repairs with the rights of who is signed in.

:func:`pgqueue.dashboard.app.create_app` makes the application; ``pgqueue dashboard`` serves it. It needs the extra
``dashboard``.
"""
