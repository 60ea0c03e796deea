import { AGENT_COMMANDS } from './commands/agent.ts';
import type { Command } from './commands/command.ts';
import { CONTENT_COMMANDS } from './commands/content.ts';
import { CONTROL_PLANE_COMMANDS } from './commands/control-plane.ts';
import { DEPLOY_COMMANDS } from './commands/deploy.ts';
import { IMAGE_COMMANDS } from './commands/images.ts';
import { MAINTENANCE_COMMANDS } from './commands/maintenance.ts';
import { MICROSERVICE_COMMANDS } from './commands/microservices.ts';
import { OWN_CONTENT_COMMANDS } from './commands/own-content.ts';
import { OWN_ENGINE_COMMANDS } from './commands/own-engine.ts';
import { SETTINGS_COMMANDS } from './commands/settings.ts';
import { VOLUME_COMMANDS } from './commands/volumes.ts';

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  ...AGENT_COMMANDS,
  ...SETTINGS_COMMANDS,
  ...MICROSERVICE_COMMANDS,
  ...DEPLOY_COMMANDS,
  ...CONTROL_PLANE_COMMANDS,
  ...IMAGE_COMMANDS,
  ...CONTENT_COMMANDS,
  ...OWN_CONTENT_COMMANDS,
  ...VOLUME_COMMANDS,
  ...MAINTENANCE_COMMANDS,
  ...OWN_ENGINE_COMMANDS,
];
