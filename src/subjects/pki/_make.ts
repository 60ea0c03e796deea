import type { Example } from '../../../testing/example.ts';

/** The authority that the certificates of the examples name. */
const AUTHORITY = 'site-ca';

export const PKI = {
  certificateAuthorities: {
    names: [AUTHORITY, 'plant-ca'],
    spec: ({ text }) => ({ type: 'self-signed', subject: text }),
    edits: [{ body: (n) => ({ subject: `authority ${n}` }) }],
    kubectl: (n) => ({ spec: { expiration: 36 + n } }),
  },
  certificates: {
    names: ['shop-tls', 'pump-tls'],
    spec: ({ text, isHub }) => ({
      subject: text,
      hosts: 'shop.example,10.0.0.5',
      ...(isHub && { ca: { type: 'direct', secretName: AUTHORITY } }),
    }),
    change: ({ text, isHub }) => ({ subject: text, ca: isHub ? { type: 'direct', secretName: AUTHORITY } : null }),
    shown: ({ draft: { text, isHub } }) => ({
      subject: text,
      hosts: 'shop.example,10.0.0.5',
      ca_name: isHub ? AUTHORITY : null,
    }),
    edits: [{ body: (n) => ({ subject: `pump ${n}` }) }, { body: (n) => ({ hosts: `pump-${n}.example` }) }],
    kubectl: (n) => ({ spec: { expiration: 12 + n } }),
  },
} satisfies Record<string, Example>;
