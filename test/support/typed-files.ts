import { strToU8, type Zippable, zipSync } from 'fflate'

const OFFICE = 'application/vnd.openxmlformats-officedocument.'

/** The documents by their endings: the media type, and the main part. */
export const DOCUMENTS = {
  docx: { type: `${OFFICE}wordprocessingml.document`, part: 'word/document.xml' },
  xlsx: { type: `${OFFICE}spreadsheetml.sheet`, part: 'xl/workbook.xml' },
  pptx: { type: `${OFFICE}presentationml.presentation`, part: 'ppt/presentation.xml' },
}

/** Builds the entries of a small document. */
export function buildDocumentEntries(kind: keyof typeof DOCUMENTS): Record<string, Uint8Array> {
  const { type, part } = DOCUMENTS[kind]
  return {
    '[Content_Types].xml': strToU8(
      '<?xml version="1.0"?><Types xmlns="http://schemas.openxmlformats.org/package/2006/content-types">' +
        '<Default Extension="rels" ContentType="application/vnd.openxmlformats-package.relationships+xml"/>' +
        `<Override PartName="/${part}" ContentType="${type}.main+xml"/></Types>`,
    ),
    '_rels/.rels': strToU8('<Relationships/>'),
    [part]: strToU8('<document>Hello</document>'),
  }
}

/** Packs entries into an archive. */
export const zip = (entries: Zippable): Buffer => Buffer.from(zipSync(entries))

const bytes = (...parts: (string | number[] | Buffer)[]): Buffer =>
  Buffer.concat(
    parts.map(part => (typeof part === 'string' ? Buffer.from(part, 'latin1') : Buffer.from(part))),
  )

export const PNG = Buffer.from(
  'iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR4nGNgYGBgAAAABQABh6FO1AAAAABJRU5ErkJggg==',
  'base64',
)
export const GIF = bytes('GIF89a', [1, 0, 1, 0, 0, 0, 0], ';')
export const JPEG = bytes(
  [0xff, 0xd8, 0xff, 0xe0, 0, 16],
  'JFIF\0',
  [1, 1, 0, 0, 1, 0, 1, 0, 0],
  [0xff, 0xd9],
)
export const WEBP = bytes(
  'RIFF',
  [26, 0, 0, 0],
  'WEBPVP8L',
  [13, 0, 0, 0, 0x2f, 0, 0, 0, 0x10, 7, 0x10, 0x11, 0x11, 0x88, 0x88, 0xfe, 7, 0],
)
export const PDF = bytes(
  '%PDF-1.7\n',
  [0x25, 0xe2, 0xe3, 0xcf, 0xd3],
  '\n1 0 obj<<>>endobj\ntrailer<<>>\n%%EOF\n',
)
export const MP3 = bytes(
  [0xff, 0xfb, 0x90, 0x64],
  Buffer.alloc(413),
  [0xff, 0xfb, 0x90, 0x64],
  Buffer.alloc(413),
)
export const ID3 = bytes('ID3', [4, 0, 0, 0, 0, 0, 10], Buffer.alloc(10), MP3)
export const WAV = bytes(
  'RIFF',
  [36, 0, 0, 0],
  'WAVEfmt ',
  [16, 0, 0, 0, 1, 0, 1, 0, 0x44, 0xac, 0, 0, 0x88, 0x58, 1, 0, 2, 0, 16, 0],
  'data',
  [0, 0, 0, 0],
)
export const FLAC = bytes('fLaC', [0x80, 0, 0, 34], Buffer.alloc(34))
export const OGG = bytes(
  'OggS',
  [0, 2],
  Buffer.alloc(8),
  [1, 2, 3, 4, 0, 0, 0, 0, 0, 0, 0, 0, 1, 30],
  '\x01vorbis',
  Buffer.alloc(23),
)
