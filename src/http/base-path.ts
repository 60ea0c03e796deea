/** The path of a public URL, without a slash at its end. */
export const basePathOf = (publicUrl: string): string => withoutEnd(new URL(publicUrl).pathname);

/** A URL or path without the slashes at its end. */
export const withoutEnd = (text: string): string => (text.endsWith('/') ? withoutEnd(text.slice(0, -1)) : text);
