import type { TunnelView } from '../../../src/wire/tunnel.ts';

/** The files that ssh reads; each exists only while the tunnel needs it. */
export interface SshFiles {
  knownHosts: string;
  key?: string | undefined;
}

/** A path as ssh reads it in options: percent signs begin tokens, and white space separates files. */
const inOption = (path: string) => `"${path.replaceAll('%', '%%').replaceAll('\\', '\\\\').replaceAll('"', '\\"')}"`;

/**
 * The arguments of ssh for a tunnel. Nothing of the machine takes part besides these: no configuration, no known hosts, no keys and
 * no agent of any user. Host and user name were read by a schema that allows no leading dash, and `--` ends the options.
 */
export function sshArguments(view: TunnelView, { knownHosts, key }: SshFiles): string[] {
  const { host, port, username, remotePort, localPort, password } = view;
  const methods = [...(key ? ['publickey'] : []), ...(password ? ['password', 'keyboard-interactive'] : [])];
  const options: Record<string, string | number> = {
    BatchMode: password ? 'no' : 'yes',
    StrictHostKeyChecking: 'yes',
    UserKnownHostsFile: inOption(knownHosts),
    GlobalKnownHostsFile: '/dev/null',
    UpdateHostKeys: 'no',
    CheckHostIP: 'no',
    PreferredAuthentications: methods.join(','),
    NumberOfPasswordPrompts: 1,
    IdentitiesOnly: 'yes',
    IdentityAgent: 'none',
    IdentityFile: key ? inOption(key) : 'none',
    ExitOnForwardFailure: 'yes',
    ConnectTimeout: 20,
    ServerAliveInterval: 15,
    ServerAliveCountMax: 3,
    ForwardAgent: 'no',
    ForwardX11: 'no',
    PermitLocalCommand: 'no',
    ControlMaster: 'no',
    ControlPath: 'none',
    EscapeChar: 'none',
  };
  return [
    // What the process says of the forward is in its messages for debugging.
    ...['-v', '-N', '-T', '-F', 'none'],
    ...Object.entries(options).flatMap(([name, value]) => ['-o', `${name}=${value}`]),
    ...['-R', `${remotePort}:localhost:${localPort}`, '-p', String(port), '-l', username, '--', host],
  ];
}
