import type { Application, EdgeNode, MicroserviceEntry } from '../../../src/api/v3/index.ts';
import { nodeUuid } from '../../../src/rules/identity.ts';
import { entryUuid, v3Name } from '../../../src/rules/names.ts';
import {
  applicationNamed,
  type CommandContext,
  findNamed,
  listApplications,
  NODES,
  target,
} from '../context/command.ts';
import { CommandError, UsageError } from '../context/errors.ts';

/** What a session is about: its name for people, and the paths of its sockets. */
export interface SessionPaths {
  name: string;
  logs: string;
  /** absent for a node */
  exec?: string;
}

/** A pod has containers, an application has microservices: who knows the one finds the other. */
export const CONTAINER_FLAG = {
  container: { short: 'c', value: 'MS', about: 'the microservice, where APP alone was named' },
} as const;

/** `APP/MS` from `APP --container MS` too. */
export function withContainer(word: string, { container }: CommandContext['flags']): string {
  if (typeof container !== 'string') return word;
  const { application, microservice = container } = target(word);
  if (microservice === container) return `${application}/${container}`;
  throw new UsageError(`"${word}" and --container "${container}" name two microservices`);
}

/** The microservice that `APP/MS` names. */
export async function microserviceTarget(context: CommandContext, word: string): Promise<SessionPaths> {
  const { application: name, microservice } = target(word);
  if (microservice === undefined) throw new UsageError(`"${word}" must be <application>/<microservice>`);
  const application = await applicationNamed(context, name);
  return targetOf(application, requireEntry(application, microservice));
}

/** What words of `logs` name: microservices, applications as a whole, and nodes as `node/NAME`. */
export async function logTargets(context: CommandContext, words: readonly string[]): Promise<SessionPaths[]> {
  const found: SessionPaths[] = [];
  for (const word of words) {
    const node = word.startsWith('node/') ? await findNamed(context, NODES, word.slice('node/'.length)) : undefined;
    if (node) found.push(nodeTarget(node));
    else if (target(word).microservice !== undefined) found.push(await microserviceTarget(context, word));
    else found.push(...targetsOf(await applicationNamed(context, word)));
  }
  return found;
}

/** The microservices of all applications with these labels. */
export async function selectedTargets(context: CommandContext, selector: string): Promise<SessionPaths[]> {
  const found = (await listApplications(context, selector)).flatMap(targetsOf);
  if (found.length > 0) return found;
  throw new CommandError(`no application with the labels ${selector} has microservices`);
}

const nodeTarget = (node: EdgeNode): SessionPaths => ({
  name: `node/${v3Name(node)}`,
  logs: `/node/${nodeUuid(node)}/logs`,
});

const targetsOf = (application: Application): SessionPaths[] =>
  (application.spec.microservices ?? []).map((entry) => targetOf(application, entry));

function targetOf(application: Application, entry: MicroserviceEntry): SessionPaths {
  const uuid = entryUuid(application, entry);
  const below = application.spec.isSystem === true ? '/microservices/system' : '/microservices';
  return {
    name: `${v3Name(application)}/${entry.name}`,
    logs: `${below}/${uuid}/logs`,
    exec: `${below}/exec/${uuid}`,
  };
}

/** The entry of an application with this name. */
export function requireEntry(application: Application, name: string): MicroserviceEntry {
  const entries = application.spec.microservices ?? [];
  const found = entries.find((entry) => entry.name === name);
  if (found) return found;
  const names = entries.map((entry) => entry.name).join(', ');
  throw new CommandError(`application ${v3Name(application)} has no microservice "${name}"; it has ${names || 'none'}`);
}

/** The names of all microservices, and of applications where a whole one will do. */
export async function completeTargets(context: CommandContext, withApplications: boolean): Promise<string[]> {
  return (await listApplications(context)).flatMap((application) => {
    const name = v3Name(application);
    const entries = (application.spec.microservices ?? []).map((entry) => `${name}/${entry.name}`);
    return withApplications ? [name, ...entries] : entries;
  });
}
