import type { PlatformPart } from '../../rules/part.ts';

/** A part with a microservice that binds a certificate, as routers and buses are; nodes with the tag `echo` have it. */
export const ECHO: PlatformPart = {
  condition: 'RouterReady',
  wants: ({ spec: { tags = [], messagingPort = 5671 } }) =>
    tags.includes('echo')
      ? {
          entry: {
            name: 'router',
            images: { amd64: 'plant/echo:1' },
            schedule: 0,
            container: { ports: [{ internal: messagingPort, external: messagingPort }] },
          },
          binds: [{ set: 'router-local-server', containerDestination: '/etc/certs' }],
        }
      : undefined,
};
