/** The manifest of a control plane; JSON is YAML. `spec` adds members, or replaces them. */
export const controlPlaneManifest = (spec: object = {}, metadata: object = {}): string =>
  JSON.stringify({
    apiVersion: 'agent.skerry.dev/v1',
    kind: 'ControlPlane',
    metadata: { name: 'hub', ...metadata },
    spec: { controller: { image: 'example/control-plane:1', registry: 1 }, auth: { mode: 'embedded' }, ...spec },
  });

const CANARY = 'Canary-in-every-secret-1!';

/** Every member that may have a secret, with the same text in each. */
export const SECRETS = {
  canary: CANARY,
  base64: Buffer.from(CANARY).toString('base64'),
  spec: {
    auth: {
      mode: 'external',
      issuerUrl: 'https://issuer.example',
      bootstrap: { username: 'ann', password: CANARY },
      client: { id: 'skerry', secret: CANARY },
      sessionStore: { secret: CANARY.padEnd(32, '.') },
    },
    tls: { base64: { cert: CANARY, key: CANARY } },
  },
} as const;
