import type { Command } from '../context/command.ts';
import { loginClient } from '../context/login.ts';
import { tokenFile } from '../context/token-file.ts';
import { currentTokens, LOGIN_FLAGS, placeOf } from './credential.ts';

export const logout: Command = {
  name: 'logout',
  about: 'End a login: its tokens are revoked and removed from this machine',
  details: ['A token that kubectl has already lives to its end, some minutes at most.'],
  examples: ['logout --controller https://skerry.example:51121'],
  flags: LOGIN_FLAGS,
  async run(context) {
    const { env, signal, out, err } = context;
    const place = placeOf(context);
    const file = tokenFile(place.origin, env);
    if (!file.read()) return out(`nobody is logged in at ${place.origin}\n`);
    try {
      // A token that has ended revokes nothing.
      const tokens = await currentTokens(context);
      await loginClient(place, signal).logout({ ...file.read(), ...tokens });
    } catch (error) {
      err(`warning: ${(error as Error).message}\n`);
    }
    file.remove();
    out(`Logged out at ${place.origin}\n`);
  },
};
