/** The manifest of a microservice; JSON is YAML. */
export const manifestOf = (name: string, image: string, container: object = {}, spec: object = {}): string =>
  JSON.stringify({
    apiVersion: 'agent.skerry.dev/v1',
    kind: 'Microservice',
    metadata: { name },
    spec: { image, registry: 1, container, ...spec },
  });
