import packageJson from '../../../package.json' with { type: 'json' };
import { isForbidden } from '../../../src/kube/mod.ts';
import { createReplicas } from '../../../src/replicas/replicas.ts';
import { facts, structured } from '../../../src/terminal/output.ts';
import type { Command, CommandContext } from '../context/command.ts';

export const version: Command = {
  name: 'version',
  about: 'Say the versions of this plugin, of the controller and of Kubernetes',
  examples: ['version', 'version --client', 'version -o json'],
  flags: { client: { about: 'that of the plugin only: no cluster is asked' } },
  async run(context) {
    const { format, out, flags } = context;
    const plugin = packageJson.version;
    const found = { plugin, ...(!flags.client && (await ofCluster(context))) };
    if (format === 'json' || format === 'yaml') return out(structured(found, format));
    out(
      facts(
        Object.entries(found).map(([name, value]) => [`${name[0]?.toUpperCase()}${name.slice(1)}`, value] as const),
      ),
    );
  },
};

/** The versions of the replicas that run, several of them during an upgrade, and of the API server. */
async function ofCluster({ cluster: { client, namespace }, signal }: CommandContext) {
  const { gitVersion } = await client.request<{ gitVersion: string }>('GET', '/version', undefined, { signal });
  return { controller: await ofController().catch(unlessForbidden), kubernetes: gitVersion };

  async function ofController() {
    const replicas = await createReplicas({ client, namespace }).list(signal);
    const versions = replicas.flatMap(({ isActive, version }) => (isActive && version ? [version] : []));
    return [...new Set(versions)].sort().join(', ') || `none runs in namespace ${namespace}`;
  }
}

function unlessForbidden(error: unknown): string {
  if (!isForbidden(error)) throw error;
  return 'not known: you may not read Leases, which say it';
}
