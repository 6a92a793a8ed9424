"""The only room that imports Ray: sessions, the engine of both fan-outs, and the whole job."""
