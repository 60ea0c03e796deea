import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

/** It names no object of ours, and every control plane with services of its own accepts it. */
const ofCluster = { type: 'cluster', resource: 'db.shop.svc', targetPort: 5432 };
const external = {
  ...{ type: 'external', resource: '10.0.0.5', targetPort: 8080 },
  ...{ servicePort: 80, clusterType: 'ClusterIP' },
};
const bridge = '7f6ad8d0-2f5b-4b6e-9f8a-1c2d3e4f5a6d';

export const cases: AgreementCase[] = [
  accepts('a service of the cluster', ofCluster),
  accepts('an address outside', external),
  accepts('an address of IPv6', { ...external, resource: '2001:db8::5' }),
  accepts('the first and the last port', { ...external, targetPort: 1, servicePort: 65_535 }),
  accepts('no tags', { ...ofCluster, tags: [] }),
  accepts('tags that are annotations, tokens and neither', {
    ...ofCluster,
    tags: ['all', 'plant-a', 'example.com/class: internal', 'no key!', 'ä'],
  }),
  accepts('the bridge of the hub', { ...ofCluster, defaultBridge: 'default-router' }),
  accepts('a microservice by its name', { ...external, type: 'microservice', resource: 'shop/web' }),
  accepts('every field', {
    id: 7,
    type: 'agent',
    resource: 'Gateway 7',
    targetPort: 22,
    defaultBridge: bridge,
    servicePort: 2222,
    clusterType: 'LoadBalancer',
    tags: ['all'],
  }),
  refuses('no type', { ...ofCluster, type: undefined }),
  refuses('another type', { ...ofCluster, type: 'pod' }),
  refuses('no resource', { ...ofCluster, resource: undefined }),
  refuses('an empty resource', { ...ofCluster, resource: '' }),
  refuses('a resource with a line feed', { ...ofCluster, resource: 'db\nshop' }),
  refuses('a resource with an escape', { ...ofCluster, resource: 'db\u001b[2J' }),
  refuses('a resource of 10,000 characters', { ...ofCluster, resource: 'x'.repeat(10_000) }),
  refuses('no target port', { ...ofCluster, targetPort: undefined }),
  refuses('the target port 0', { ...ofCluster, targetPort: 0 }),
  refuses('the target port 65536', { ...ofCluster, targetPort: 65_536 }),
  refuses('a target port in text', { ...ofCluster, targetPort: '5432' }),
  refuses('the service port 0', { ...external, servicePort: 0 }),
  refuses('another type of a Service', { ...external, clusterType: 'ExternalName' }),
  refuses('a bridge by its name', { ...ofCluster, defaultBridge: 'gateway-7' }),
  refuses('tags in one text', { ...ofCluster, tags: 'all,plant-a' }),
  refuses('an empty tag', { ...ofCluster, tags: [''] }),
  refuses('10,000 tags', { ...ofCluster, tags: Array.from({ length: 10_000 }, (_, i) => `tag-${i}`) }),
  refuses('an unknown field', { ...ofCluster, port: 80 }),
];
