import type { EdgeNode } from '../../../src/api/v3/index.ts';
import { v3Name } from '../../../src/rules/names.ts';
import { PART_CONDITIONS } from '../../../src/rules/part.ts';
import { systemApplicationName } from '../../../src/subjects/nodes/rules/system-application.ts';

/** Parts of the platform of a node that are not in order, each with the next step (docs/resources/platform.md#what-the-conditions-say). */

interface PartTodo {
  condition: string;
  todo: string;
}

/** By the reason of a condition: what to do, in one sentence. */
const STEPS: Readonly<Record<string, (node: EdgeNode) => string>> = {
  AuthorityNotReady: () => 'kubectl describe certificateauthority NAME says why it has no key; else wait a moment.',
  NotProvisioned: (node) => `kubectl skerry provision ${v3Name(node)} makes a key for an agent.`,
  NodeUnreachable: () => 'Nothing: the machine fetches what it lacks when it is back.',
  FilesPending: () => 'Wait a moment; an agent of another make, or an earlier version, does not have such files.',
  FilesFailed: () => 'Mend the machine in the words of the message, such as a full disk.',
  BusTooManyAccounts: () => 'Make the node a leaf (busMode), or run fewer applications with access to the bus on it.',
  CertificateExpired: () => 'kubectl describe certificateauthority says why nothing renews it.',
  NameTaken: (node) => `Delete the application ${systemApplicationName(node)}, or create it under another name.`,
  PortTaken: () => 'Give the port up in the microservice that has it, or change the port of the node.',
  PolicyRefused: () => 'Change policy.yaml on the machine, or the mode of the node.',
  ImageMissing: () => 'Name an image for the architecture of the machine.',
};

export const hasPlatform = ({ status }: EdgeNode): boolean =>
  PART_CONDITIONS.some((part) => status?.conditions?.some(({ type }) => type === part));

/** What to do about each part that is not True. */
export function platformTodos(node: EdgeNode): readonly PartTodo[] {
  return PART_CONDITIONS.flatMap((condition) => {
    const found = node.status?.conditions?.find(({ type }) => type === condition);
    if (!found || found.status === 'True') return [];
    const step = STEPS[found.reason]?.(node) ?? 'See its message.';
    return [{ condition, todo: step }];
  });
}
