import { createHash, randomUUID, X509Certificate } from 'node:crypto';
import { readFileSync } from 'node:fs';
import http from 'node:http';
import https from 'node:https';
import { basename } from 'node:path';
import { API_VERSION, HEADERS, LABELS } from '../../../src/api/names.ts';
import { CORE_RESOURCES } from '../../../src/api/resources.ts';
import type { EdgeNode } from '../../../src/api/v3/index.ts';
import { provisioningKeyData, provisioningKeyName } from '../../../src/datastore/provisioning-key.ts';
import { refOf } from '../../../src/kube/mod.ts';
import { objectName, v3Name } from '../../../src/rules/names.ts';
import { formatJoinString } from '../../../src/wire/node-token.ts';
import { type Command, type CommandContext, FIELD_MANAGER, findNamed, listNodes, NODES } from '../context/command.ts';
import { controllerUrl, isReadable, PLACEHOLDER } from '../context/controller-address.ts';
import { CommandError } from '../context/errors.ts';

/** How long a key can be used, as over REST. */
const LIFETIME_MS = 20 * 60_000;
const IDENTITY_MS = 30_000;

/** A word for a shell that has any characters; plain ones need no quotes. */
const quoted = (word: string) => (/^[\w.-]+$/.test(word) ? word : `'${word.replaceAll("'", `'\\''`)}'`);

/**
 * The command that installs the agent first. The join string is no argument: other users of the machine see those in the list of
 * processes, and an environment only its own user. `ca`: the file with the authority, which has to be on the machine.
 */
export function installLine(from: string, join: string, ca: string | undefined): string {
  const trusted = ca === undefined ? '' : `export CURL_CA_BUNDLE="$PWD"/${quoted(ca)}; `;
  // Not a pipe: its exit code is that of its end, and a download that fails has to end the line.
  return `${trusted}script=$(curl -fsSL ${from}) && SKERRY_JOIN="${join}" sh -c "$script"`;
}

/** What to do on a machine without an agent where the controller has no packages. */
const BY_ARCHIVE = `The controller has no packages of the agent (releasesVolume or releasesUrl of its chart). Without an agent on the machine, first,
as root, with the archive of a release:

  tar -xzf skerry-agent-<version>-linux-<architecture>.tar.gz -C /
  systemctl daemon-reload && systemctl enable --now skerry-agent
`;

/** How long, ms, the controller has to say whether it has packages. */
const PACKAGES_MS = 3_000;

/**
 * Whether the install line may work. Only a controller that says that it has no packages has none: the address is that of machines,
 * and need not lead there from here. Nothing is believed but that, so the certificate does not matter.
 */
export function mayHavePackages(from: string): Promise<boolean> {
  const { request } = from.startsWith('https:') ? https : http;
  return new Promise((resolve) => {
    const asked = request(from, { method: 'HEAD', rejectUnauthorized: false, timeout: PACKAGES_MS }, (answer) => {
      answer.resume();
      // A controller of the release before answers 404.
      resolve(answer.headers[HEADERS.packages] !== 'none' && answer.statusCode !== 404);
      asked.destroy();
    });
    asked.once('timeout', () => asked.destroy(new Error('no answer'))).once('error', () => resolve(true));
    asked.end();
  });
}

export const provision: Command = {
  name: 'provision',
  usage: 'NODE',
  about: 'Make a key with which a machine becomes this node',
  details: [
    'Prints the command to run on the machine. The key works once, for 20 minutes, and replaces an earlier key of the node.',
  ],
  examples: ['provision gw-1 --controller controller.example:51121', 'provision gw-2 --create -o json'],
  flags: {
    create: { about: 'create the EdgeNode when it does not exist' },
    controller: {
      value: '[https://]HOST:PORT',
      about: 'where the machine reaches the controller, http:// without a scheme and --ca; $SKERRY_CONTROLLER',
    },
    ca: {
      value: 'FILE',
      about: "certificate of the controller's authority (PEM): the machine trusts it alone",
    },
  },
  words: { min: 1, max: 1 },
  complete: async (context) => (await listNodes(context)).map(v3Name),
  async run(context) {
    const { flags, env, cluster, format, out, err, now } = context;
    const address = text(flags.controller) || env.SKERRY_CONTROLLER || undefined;
    const ca = text(flags.ca);
    const controller = controllerUrl(address, ca !== undefined);
    const node = await withIdentity(context, await nodeToProvision(context));
    const key = randomUUID();
    const expiresAt = now() + LIFETIME_MS;
    await cluster.client.create(
      CORE_RESOURCES.secrets,
      {
        apiVersion: 'v1',
        kind: 'Secret',
        metadata: {
          name: provisioningKeyName(key),
          namespace: cluster.namespace,
          labels: { [LABELS.provisioningKey]: node.status?.uuid ?? '' },
        },
        data: provisioningKeyData({ nodeUuid: node.status?.uuid ?? '', expiresAt }),
      },
      { fieldManager: FIELD_MANAGER, signal: context.signal },
    );
    const join = formatJoinString({
      controllerUrl: controller.href,
      key,
      ...(ca !== undefined && { caDigest: digestOf(ca) }),
    }).replace(address ? '' : PLACEHOLDER, address ? '' : PLACEHOLDER.toUpperCase());
    if (isReadable(controller))
      err(
        'warning: over http, whoever is between the machine and the controller can read the key and run programs as root on it; name the controller with https://\n',
      );
    if (format === 'json')
      return out(`${JSON.stringify({ node: v3Name(node), key, expiresAt, join }, undefined, 2)}\n`);
    const host = address ? controller.host : controller.host.toUpperCase();
    const from = `${controller.protocol}//${host}/install.sh`;
    out(`Run on the machine, within 20 minutes:\n\n  SKERRY_JOIN="${join}" skerry-agent provision\n`);
    const line = installLine(from, join, ca && basename(String(flags.ca)));
    const hasPackages = !address || (await mayHavePackages(from));
    out(hasPackages ? `\nWithout an agent on it, as root:\n\n  ${line}\n` : `\n${BY_ARCHIVE}`);
    if (!address)
      out('\nPut the address of the controller in the place of CONTROLLER:51121, or name it with --controller.\n');
  },
};

const text = (flag: unknown) => (typeof flag === 'string' ? flag : undefined);

/** SHA-256 of the DER form of a certificate. */
function digestOf(file: string): string {
  const { raw } = new X509Certificate(readFileSync(file));
  return createHash('sha256').update(raw).digest('hex');
}

async function nodeToProvision(context: CommandContext): Promise<EdgeNode> {
  const [name = ''] = context.words;
  const { client, namespace } = context.cluster;
  const found = await findNamed(context, NODES, name);
  if (found && v3Name(found) === name) return found;
  if (!context.flags.create) throw new CommandError(`there is no node "${name}"; --create makes it`);
  const called = objectName(name);
  const object: EdgeNode = {
    apiVersion: API_VERSION,
    kind: 'EdgeNode',
    metadata: { name: called, namespace },
    spec: { ...(called !== name && { name }) } as EdgeNode['spec'],
  };
  return client.create(NODES, object, { fieldManager: FIELD_MANAGER, signal: context.signal });
}

/** The node once the controller has given it its identity. */
async function withIdentity(context: CommandContext, node: EdgeNode): Promise<EdgeNode> {
  const { client } = context.cluster;
  const until = context.now() + IDENTITY_MS;
  for (let current = node; ; current = await client.get(NODES, refOf(node), { signal: context.signal })) {
    if (current.status?.uuid) return current;
    if (context.now() > until)
      throw new CommandError(
        `node ${v3Name(node)} has no identity yet: does the controller run? kubectl skerry doctor`,
      );
    await new Promise((resolve) => setTimeout(resolve, 200));
  }
}
