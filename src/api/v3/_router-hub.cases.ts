import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

export const cases: AgreementCase[] = [
  accepts('a default router in the cluster', {}),
  accepts('a router elsewhere', { host: 'router.example', isExternal: true }),
  accepts('an IPv6 address', { host: '2001:db8::5' }),
  accepts('every field', {
    uuid: '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a80',
    host: 'router.example',
    messagingPort: 5671,
    edgeRouterPort: 45671,
    interRouterPort: 55671,
    serviceType: 'LoadBalancer',
    isExternal: false,
  }),
  refuses('an empty host', { host: '' }),
  refuses('a host with a scheme', { host: 'amqps://router.example' }),
  refuses('a host with a space', { host: 'a b' }),
  refuses('port 0', { messagingPort: 0 }),
  refuses('a port beyond 65535', { edgeRouterPort: 65536 }),
  refuses('a port in text', { interRouterPort: '55671' }),
  refuses('a Service of another type', { serviceType: 'ExternalName' }),
  refuses('replicas', { replicas: 2 }),
];
