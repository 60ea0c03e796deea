import type { Application, EdgeNode, MicroserviceEntry } from '../../../api/v3/index.ts';
import { nodeUuid } from '../../../rules/identity.ts';
import type { NodeInputs, PlatformInputs } from '../../../rules/inputs.ts';
import type {
  NodeCertificate,
  PartFiles,
  PartInputs,
  PartState,
  PartWants,
  PlacedEntry,
  SystemBind,
} from '../../../rules/part.ts';
import { type Base64ByKey, type SystemFileSet, systemFilesView } from '../../../rules/system-files.ts';
import { systemSetDigest } from '../../../wire/system-files.ts';
import { systemApplicationName } from '../../nodes/rules/system-application.ts';
import { upstreamNode } from '../../nodes/rules/upstreams.ts';
import { authoritySecretName, KEYS } from '../../pki/rules/authority.ts';
import { timeOf } from '../../pki/rules/validity.ts';
import { EXPIRES, HOST, pairIn, platformSecretName, randomKey } from './secret.ts';

/** What a node gets of its platform. */
export interface PlatformSections {
  parts: readonly PartState[];
  systemFiles: readonly SystemFileSet[];
  /** what the container of a microservice binds of the system's files; none for microservices of users */
  bindsOf(application: Application, entry: Pick<MicroserviceEntry, 'name'>): readonly SystemBind[];
  /** the `config` of a microservice that the system computes; undefined: its own */
  configOf(application: Application, entry: Pick<MicroserviceEntry, 'name'>): unknown;
}

const NOTHING: PlatformSections = { parts: [], systemFiles: [], bindsOf: () => [], configOf: () => undefined };

/** What all parts want on a node, each with its condition. */
export const wantsOn = (node: EdgeNode, { parts, facts }: Pick<PlatformInputs, 'parts' | 'facts'>) =>
  parts.flatMap(({ condition, wants }) => {
    const wanted = wants(node, facts);
    return wanted ? [{ condition, ...wanted }] : [];
  });

/** Whether an application is the system's own on a node. */
const isSystemApplicationOf = (node: EdgeNode, { metadata, spec }: Application): boolean =>
  spec.isSystem === true && metadata.name === systemApplicationName(node);

/** What a node gets of its platform, until its agent gives up its identity. */
export function platformSections(
  node: EdgeNode,
  {
    platform: inputs,
    nodeByName,
    nodeByUuid = () => undefined,
    bus,
    services,
  }: Pick<NodeInputs, 'platform' | 'nodeByName' | 'nodeByUuid' | 'bus' | 'services'>,
  placed: () => readonly PlacedEntry[] = () => [],
): PlatformSections {
  const wanted = inputs ? wantsOn(node, inputs) : [];
  if (!inputs || wanted.length === 0) return NOTHING;
  const own = inputs.secret(platformSecretName(nodeUuid(node)));
  const certificates = wanted.flatMap((each) => each.certificates ?? []);
  const key = (name: string) => own?.[randomKey(name)];
  const { secret, systemNodes, defaultRouter } = inputs;
  const partInputs: PartInputs = {
    ...{ key, secret, placed, services },
    upstreamNode: (ref) => upstreamNode(ref, { nodeByName, nodeByUuid }),
    ...(systemNodes && { systemNodes }),
    ...(defaultRouter && { defaultRouter }),
    ...(bus && { bus }),
  };
  const further = wanted.map(({ files }) => files?.(partInputs));
  const sets = new Map(
    [
      ...certificates.flatMap((certificate) => setOf(certificate, own, inputs) ?? []),
      ...further.flatMap((files) => files?.sets ?? []),
    ].map((set) => [set.name, set]),
  );
  const systemFiles = [...sets.values()].sort((a, b) => (a.name < b.name ? -1 : 1));
  const binds = new Map(wanted.flatMap(({ entry, binds: some = [] }) => (entry ? [[entry.name, some]] : [])));
  return {
    parts: wanted.map((each, i) => stateOf(each, node, { ...inputs, own, sets, files: further[i] })),
    systemFiles,
    bindsOf: (application, { name }) => (isSystemApplicationOf(node, application) && binds.get(name)) || [],
    configOf: (application, { name }) =>
      isSystemApplicationOf(node, application)
        ? wanted.find(({ entry }) => entry?.name === name)?.config?.(partInputs)
        : undefined,
  };
}

function stateOf(
  { condition, certificates = [], entry }: PartWants & Pick<PartState, 'condition'>,
  node: EdgeNode,
  inputs: PlatformInputs & {
    own: Base64ByKey | undefined;
    sets: ReadonlyMap<string, SystemFileSet>;
    files: PartFiles | undefined;
  },
): PartState {
  const { own, files } = inputs;
  const lacks =
    lacksCertificate(certificates, inputs.sets) ?? files?.lacks ?? (entry && lacksApplication(node, inputs));
  const expiresAt = certificates.length > 0 ? timeOf(own && textAt(own, EXPIRES)) : undefined;
  return {
    condition,
    hasFiles: certificates.length > 0 || files !== undefined,
    isOutdated: certificates.length > 0 && own !== undefined && !isOfHost(node, own),
    ...(lacks && { lacks }),
    sets: digestsOf(
      [...certificates.map(({ name }) => name), ...(files?.sets ?? []).map(({ name }) => name)],
      inputs.sets,
    ),
    ...(expiresAt !== undefined && { expiresAt }),
    ...(entry && { entry }),
  };
}

const digestsOf = (names: readonly string[], sets: ReadonlyMap<string, SystemFileSet>) =>
  Object.fromEntries(
    names.flatMap((name) => {
      const set = sets.get(name);
      return set ? [[name, systemSetDigest(systemFilesView(set))]] : [];
    }),
  );

function lacksCertificate(
  certificates: readonly NodeCertificate[],
  sets: ReadonlyMap<string, SystemFileSet>,
): PartState['lacks'] {
  const lacking = certificates.find(({ name }) => !sets.has(name));
  if (!lacking) return undefined;
  const { name, authority } = lacking;
  return {
    reason: 'AuthorityNotReady',
    message: `the certificate ${name} of the node is not made yet by the authority "${authority}"`,
  };
}

function lacksApplication(node: EdgeNode, { applicationNamed }: PlatformInputs): PartState['lacks'] {
  const name = systemApplicationName(node);
  const present = applicationNamed(name);
  if (!present || present.spec.isSystem === true) return undefined;
  return {
    reason: 'NameTaken',
    message: `the application "${name}" of a user has the name of the system's on this node: delete it, or create it under another name`,
  };
}

const textAt = (content: Base64ByKey, key: string): string => Buffer.from(content[key] ?? '', 'base64').toString();

const isOfHost = ({ spec: { host } }: EdgeNode, own: Base64ByKey) => host === undefined || textAt(own, HOST) === host;

const trustedBy = (authority: string, { secret }: PlatformInputs) =>
  secret(authoritySecretName(authority))?.[KEYS.trusted];

/** The files of a certificate; undefined until all of them exist. */
function setOf(
  { name, authority }: NodeCertificate,
  own: Base64ByKey | undefined,
  inputs: PlatformInputs,
): SystemFileSet | undefined {
  const pair = own && pairIn(own, name);
  const trusted = trustedBy(authority, inputs);
  if (!pair || !trusted) return undefined;
  return { name, files: { [KEYS.trusted]: trusted, [KEYS.certificate]: pair.cert, [KEYS.key]: pair.key } };
}
