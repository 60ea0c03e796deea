import { parseDocument } from 'yaml';
import { ConfigError } from './config.ts';
import { wrongValue, yamlProblem } from './issue-text.ts';
import { OPEN_POLICY, type Policy, policySchema } from './policy.ts';

/** Allows nothing that a rule could forbid. */
const STRICTEST_POLICY: Policy = {
  privileged: false,
  hostNetwork: false,
  hostPid: false,
  hostIpc: false,
  devices: false,
  runtimes: [],
  capAdd: [],
  bindPrefixes: [],
  registries: [],
  storage: [],
  pullThroughAgent: true,
  exec: false,
  logs: false,
  tunnel: false,
  stopRefused: false,
};

/**
 * Reads a policy file for an agent that has to start with any content of it. When a part is invalid, every rule that is
 * not valid is as strict as possible, since that may have been intended. Containers keep running, also with
 * `stopRefused`: stopping all of them was not intended.
 */
export function strictestReading(read: () => string | undefined, file: string): { policy: Policy; problem?: string } {
  let text: string | undefined;
  try {
    text = read();
    return { policy: parsePolicy(text, file) };
  } catch (error) {
    const rules = Object.entries(policySchema.shape).flatMap(([name, rule]) => {
      const said = rule.safeParse(memberOf(text, name));
      return said.success && memberOf(text, name) !== undefined ? [[name, said.data]] : [];
    });
    const policy = { ...STRICTEST_POLICY, ...Object.fromEntries(rules), stopRefused: false };
    return { policy, problem: (error as Error).message };
  }
}

function memberOf(text: string | undefined, name: string): unknown {
  const document = parseDocument(text ?? '');
  const content: unknown = document.errors.length > 0 ? {} : document.toJS();
  return content !== null && typeof content === 'object' && Object.hasOwn(content, name)
    ? (content as Record<string, unknown>)[name]
    : undefined;
}

/** Reads a policy file; throws ConfigError for one that cannot be read as a whole. */
export function parsePolicy(text: string | undefined, file: string): Policy {
  if (text === undefined) return OPEN_POLICY;
  const document = parseDocument(text);
  if (document.errors.length > 0) throw new ConfigError(`${file} is not YAML: ${yamlProblem(document)}`);
  const content: unknown = document.toJS() ?? {};
  const policy = policySchema.safeParse(content);
  if (policy.success) return policy.data;
  const wrong = policy.error.issues.map((issue) => wrongValue(issue, content));
  throw new ConfigError(`${file}: ${wrong.join('; ')}`);
}
