import { CommandError } from './errors.ts';

/** What stands for the address of the controller when it is not known; a URL has it in lower case. */
export const PLACEHOLDER = 'controller';

/** The URL under which a machine reaches the controller, of HOST:PORT with or without a scheme. */
export function controllerUrl(address: string | undefined, hasAuthority: boolean): URL {
  const given = address ?? `${PLACEHOLDER}:51121`;
  const fallback = hasAuthority ? 'https' : 'http';
  const text = given.includes('://') ? given : `${fallback}://${given}`;
  const url = URL.canParse(text) ? new URL(text) : undefined;
  const isPlain = url && url.pathname === '/' && !/[?#@]/.test(text);
  if (!isPlain || !/^https?:$/.test(url.protocol))
    throw new CommandError(
      `the address of the controller is "${given}"; HOST:PORT, https://HOST:PORT or http://HOST:PORT would be right`,
    );
  if (hasAuthority && url.protocol === 'http:')
    throw new CommandError(`the address of the controller is "${given}"; with --ca it has to be https://`);
  return url;
}

/** Whether others can read the traffic to this address. */
export const isReadable = ({ protocol, hostname }: URL): boolean =>
  protocol === 'http:' && !/^(localhost|127(\.\d+){3}|\[::1\])$/.test(hostname);
