/** What decides whether people can log in at this controller. */
export interface LoginSwitch {
  publicUrl?: string;
  /** login over plain HTTP is accepted */
  allowsHttp: boolean;
}

/** Whether nothing but this machine is between here and there. */
export const isLoopbackUrl = (url: string): boolean =>
  /^(127(\.\d+){3}|localhost|\[::1\])$/.test(URL.parse(url)?.hostname ?? '');

/** Why nobody can log in, in words for people; undefined when logins are on. */
export function loginOff({ publicUrl, allowsHttp }: LoginSwitch): string | undefined {
  const isSafe = publicUrl !== undefined && (publicUrl.startsWith('https:') || isLoopbackUrl(publicUrl) || allowsHttp);
  return isSafe
    ? undefined
    : 'CONTROLLER_PUBLIC_URL: login needs https://, a loopback address, or AUTH_INSECURE_ALLOW_HTTP=true';
}
