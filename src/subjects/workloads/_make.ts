import { describe, type Example } from '../../../testing/example.ts';

/** The entry of the example of application templates, and its node. */
export const TEMPLATE_ENTRY = { name: 'web', node: 'gw-a' } as const;

export const WORKLOADS = {
  applicationTemplates: {
    names: ['line', 'cell'],
    spec: ({ text, image }) => ({
      description: text,
      variables: [{ key: 'image', defaultValue: image }],
      application: {
        microservices: [
          {
            ...{ name: TEMPLATE_ENTRY.name, agentName: TEMPLATE_ENTRY.node },
            images: [{ archId: 1, containerImage: '{{ image }}' }],
          },
        ],
      },
    }),
    change: ({ text }) => ({ description: text }),
    shown: ({ draft: { text } }) => ({ description: text }),
    edits: [describe],
    kubectl: (n) => ({ spec: { variables: [{ key: `v${n}` }] } }),
  },
  microserviceTemplates: {
    names: ['base', 'edge'],
    spec: ({ text, image }) => ({ description: text, microservice: { images: { amd64: image } } }),
    edits: [describe, { body: (n) => ({ variables: [{ key: `v${n}` }] }) }],
    kubectl: (n) => ({ spec: { microservice: { schedule: n } } }),
  },
  applications: {
    names: ['plant', 'mill'],
    rest: { path: '/application', list: 'applications', part: 'application', update: 'PUT' },
    spec: ({ isActivated }) => ({ isActivated }),
    edits: [describe, { body: (n) => ({ busConfig: { busAccess: true, busRule: `rule-${n}` } }) }],
    kubectl: (n) => ({ spec: { isActivated: n % 2 === 0 } }),
  },
} satisfies Record<string, Example>;
