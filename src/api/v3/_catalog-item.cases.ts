import { type AgreementCase, accepts, refuses } from '../_agreement.ts';

const images = [{ archId: 1, containerImage: 'reg.example/reader:2' }];
const minimal = { images, registryId: 1 };

export const cases: AgreementCase[] = [
  accepts('images and a registry', minimal),
  accepts('every field', {
    name: 'Reader for plants',
    id: 12,
    description: 'reads',
    category: 'SENSORS',
    publisher: 'Plant Works',
    images: [1, 2, 3, 4].map((archId) => ({ archId, containerImage: `reader:${archId}` })),
    registryId: 'team',
    diskRequired: 0.5,
    ramRequired: 128,
    picture: 'https://pictures.example/reader.png',
    isPublic: true,
    configExample: '{"rate": 5}',
    inputType: { infoType: 'text', infoFormat: 'json' },
    outputType: {},
  }),
  accepts('a registry as digits', { ...minimal, registryId: '12' }),
  refuses('no images', { registryId: 1 }),
  refuses('an empty list of images', { images: [], registryId: 1 }),
  refuses('no registry', { images }),
  refuses('two images for one architecture', { ...minimal, images: [...images, ...images] }),
  refuses('an image without architecture', { ...minimal, images: [{ containerImage: 'a:1' }] }),
  refuses('an image for the architecture 0', { ...minimal, images: [{ archId: 0, containerImage: 'a:1' }] }),
  refuses('an image for an unknown architecture', { ...minimal, images: [{ archId: 5, containerImage: 'a:1' }] }),
  refuses('an empty image', { ...minimal, images: [{ archId: 1, containerImage: '' }] }),
  refuses('an image with a space', { ...minimal, images: [{ archId: 1, containerImage: 'a b' }] }),
  refuses('an empty name', { ...minimal, name: '' }),
  refuses('a negative amount of memory', { ...minimal, ramRequired: -1 }),
  refuses('an amount of disk that is text', { ...minimal, diskRequired: '1' }),
  refuses('an id of 0', { ...minimal, id: 0 }),
  refuses('a type of input that is text', { ...minimal, inputType: 'text' }),
  refuses('an unknown field', { ...minimal, colour: 'red' }),
];
