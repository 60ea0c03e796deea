import { pushImage } from '../../hack/image.ts';
import { sampleImage } from '../../hack/sample.ts';
import type { MicroserviceStatus } from '../../src/wire/agent.ts';
import { until } from './engines/_contract.ts';
import type { FakeController, View } from './link/_fake-controller.ts';

/** Pushes one image for each tag; the web server in it responds with the tag. */
export async function pushVersions(registryUrl: string, repository: string, ...tags: string[]): Promise<void> {
  for (const tag of tags) await pushImage(registryUrl, repository, tag, await sampleImage({ env: { GREETING: tag } }));
}

/** The microservice of most tests: a web server at one port of the machine. */
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

/** A microservice without anything special, of an image that an engine in memory has. */
export const plainView = (change: Partial<View> & Pick<View, 'uuid'>): View => ({
  ...{ name: 'web', application: 'shop', imageId: 'example/app:1', registryId: 1, revision: 'r1' },
  ...change,
});

/** Waits until the controller has the report that a microservice runs in its revision. */
export const untilRuns = (controller: FakeController, { uuid, revision }: View): Promise<MicroserviceStatus> =>
  until(
    `the report that ${revision} runs`,
    () => {
      const status = controller.microservice(uuid);
      return status?.status === 'RUNNING' && status.revision === revision && status;
    },
    60_000,
  );
