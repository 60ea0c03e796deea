import { existsSync, readdirSync, readFileSync } from 'node:fs';
import { join } from 'node:path';
import { Contrib, Enums, Models, Serialize, Spec } from '@cyclonedx/cyclonedx-library';
import { ROOT } from '../paths.ts';
import { type ImageArchitecture, LIBRARIES, NODES, type Platform } from './pinned.ts';

/** A foreign part of something that is released. */
export interface Part {
  name: string;
  version: string;
  /** an SPDX expression */
  license: string;
  /** package URL */
  purl: string;
  /** the words of the licence, as far as the part brings them along */
  text?: string;
}

/** The packages of npm in these folders, as a bundle names them. */
export function packageParts(folders: Iterable<string>): Part[] {
  return [...new Set(folders)].sort().map((folder) => {
    const path = join(ROOT, folder);
    const {
      name,
      version,
      licenses,
      license = licenses?.[0]?.type,
    } = JSON.parse(readFileSync(join(path, 'package.json'), 'utf8'));
    if (typeof license !== 'string') throw new Error(`${folder}: its package.json names no licence`);
    const text = readdirSync(path)
      .filter((file) => /^(licen[cs]e|copying|notice)/i.test(file))
      .sort()
      .map((file) => readFileSync(join(path, file), 'utf8').trim())
      .join('\n\n');
    const purl = `pkg:npm/${name.replace('@', '%40')}@${version}`;
    return { name, version, license, purl, ...(text && { text }) };
  });
}

/** The Node of a platform. `license`: the file that comes with it. */
export function nodePart(platform: Platform, license: string): Part {
  const { name, version } = NODES[platform];
  const text = existsSync(license) ? readFileSync(license, 'utf8').trim() : undefined;
  return { name: 'node', version, license: 'MIT', purl: `pkg:npm/${name}@${version}`, ...(text && { text }) };
}

export const libraryParts = (architecture: ImageArchitecture): Part[] =>
  LIBRARIES.map(({ name, version, license }) => ({
    ...{ name, version, license },
    purl: `pkg:deb/debian/${encodeURIComponent(name)}@${encodeURIComponent(version)}?arch=${architecture}&distro=debian-12`,
    text: `The image has it as /usr/share/doc/${name.startsWith('lib') && name !== 'libc6' ? 'gcc-12-base' : name}/copyright.`,
  }));

/** The software bill of materials of a part of a release, as CycloneDX JSON. */
export function billOfMaterials(
  product: { name: string; version: string; created: Date },
  parts: readonly Part[],
): string {
  const { name, version, created } = product;
  const licenses = new Contrib.License.Factories.LicenseFactory(() => {});
  const own = new Models.Component(Enums.ComponentType.Application, name, {
    version,
    bomRef: `${name}@${version}`,
    licenses: new Models.LicenseRepository([licenses.makeFromString('Apache-2.0')]),
  });
  const components = parts.map(
    ({ name, version, license, purl }) =>
      new Models.Component(Enums.ComponentType.Library, name, {
        ...{ version, purl, bomRef: purl },
        licenses: new Models.LicenseRepository([licenses.makeFromString(license)]),
      }),
  );
  for (const { bomRef } of components) own.dependencies.add(bomRef);
  const bom = new Models.Bom({
    metadata: new Models.Metadata({ component: own, timestamp: created }),
    components: new Models.ComponentRepository(components),
  });
  const factory = new Serialize.JSON.Normalize.Factory(Spec.Spec1dot6);
  return `${new Serialize.JsonSerializer(factory).serialize(bom, { sortLists: true, space: 2 })}\n`;
}

const COMMON = /\/usr\/share\/common-licenses\/([A-Za-z]+[A-Za-z\d.-]*[A-Za-z\d])/g;
/** Names without a version mean the newest one. */
const NEWEST: Readonly<Record<string, string>> = { GPL: 'GPL-3', LGPL: 'LGPL-3', GFDL: 'GFDL-1.2' };

/** The texts that licences of Debian name by a path, which machines of others do not have. */
function commonTexts(sections: readonly string[]): string[] {
  const named = sections.flatMap((section) =>
    [...section.matchAll(COMMON)].map(([, name = '']) => NEWEST[name] ?? name),
  );
  return [...new Set(named)].sort().flatMap((name) => {
    const file = join(ROOT, 'packaging/licenses', name);
    if (!existsSync(file)) return [];
    return [['='.repeat(80), `/usr/share/common-licenses/${name}`, '', readFileSync(file, 'utf8').trim()].join('\n')];
  });
}

/** The licences of the content of a part of a release, with the texts to which they refer. */
export function notice(product: string, parts: readonly Part[]): string {
  const sections = parts.map(({ name, version, license, text }) =>
    [`${'-'.repeat(80)}`, `${name} ${version}`, `Licence: ${license}`, '', text ?? '(It brings no text along.)'].join(
      '\n',
    ),
  );
  const head = [product, '', 'Licensed under the Apache License, Version 2.0. It has in it:', ''];
  return `${[...head, ...sections, ...commonTexts(sections)].join('\n')}\n`;
}
