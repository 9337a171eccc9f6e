"""What the commands do, over the ports; only `bridge.cli` knows which adapters stand behind them."""
