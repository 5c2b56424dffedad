"""lawfit: survival models of draft acceptance, fitted to the round logs of speculative decoding."""
