import type { Command } from './command.ts';
import { AGENT_COMMANDS } from './commands/agent.ts';
import { MAINTENANCE_COMMANDS } from './commands/maintenance.ts';
import { MICROSERVICE_COMMANDS } from './commands/microservices.ts';

/** Every command but `help`, in the order of the help. */
export const COMMANDS: readonly Command[] = [...AGENT_COMMANDS, ...MICROSERVICE_COMMANDS, ...MAINTENANCE_COMMANDS];
