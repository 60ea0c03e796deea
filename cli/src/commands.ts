import { rebuild, start, stop } from './commands/actions.ts';
import { apply } from './commands/apply.ts';
import { authenticationConfig } from './commands/authentication-config.ts';
import { backup, restore } from './commands/backup.ts';
import { busCreds } from './commands/bus.ts';
import { cp } from './commands/cp.ts';
import { credential } from './commands/credential.ts';
import { describe } from './commands/describe.ts';
import { doctor } from './commands/doctor.ts';
import { exec } from './commands/exec.ts';
import { get } from './commands/get.ts';
import { login } from './commands/login.ts';
import { logout } from './commands/logout.ts';
import { logs } from './commands/logs.ts';
import { nodes } from './commands/nodes.ts';
import { provision } from './commands/provision.ts';
import { upgradeAgent } from './commands/upgrade-agent.ts';
import { version } from './commands/version.ts';
import type { Command } from './context/command.ts';

/** Every command, in the order of the help. */
export const COMMANDS: readonly Command[] = [
  get,
  describe,
  apply,
  provision,
  start,
  stop,
  rebuild,
  exec,
  logs,
  cp,
  busCreds,
  nodes,
  upgradeAgent,
  backup,
  restore,
  doctor,
  login,
  logout,
  credential,
  authenticationConfig,
  version,
];
