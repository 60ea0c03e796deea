import { pushImage } from '../../hack/image.ts';
import { sampleImage } from '../../hack/sample.ts';
import type { View } from './controller/_fake-controller.ts';

/** The images that a story goes through: each answers with its own tag. */
export async function pushVersions(registryUrl: string, repository: string, ...tags: string[]): Promise<void> {
  for (const tag of tags) await pushImage(registryUrl, repository, tag, await sampleImage({ env: { GREETING: tag } }));
}

/** The microservice that most stories are about: a web server at one port of the machine. */
export function webView(its: View & { external: number }, change: Partial<View> = {}): View {
  const { external, ...view } = its;
  return {
    name: 'web',
    application: 'shop',
    registryId: 1,
    portMappings: [{ internal: 8080, external, protocol: 'tcp' }],
    ...view,
    ...change,
  };
}
