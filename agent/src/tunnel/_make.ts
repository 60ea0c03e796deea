import type { TunnelView } from '../../../src/wire/tunnel.ts';

/** An open tunnel as the controller sends it. */
export const makeTunnel = (overrides: Partial<TunnelView> = {}): TunnelView => ({
  ...{ host: 'bastion.example', port: 22, username: 'tunnel', remotePort: 2001, localPort: 22 },
  ...{ rsaKey: 'PRIVATE KEY', password: '', knownHosts: 'bastion.example ssh-ed25519 AAAA', closed: false },
  ...overrides,
});
