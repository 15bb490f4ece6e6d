import { describe, expect, test } from 'bun:test'
import { deflateRawSync } from 'node:zlib'
import { TypeDetector } from '../../../src/resources/files/type.ts'
import { createSeededIntegers, LONG, SEED } from '../../support/random.ts'
import {
  buildDocumentEntries,
  DOCUMENTS,
  FLAC,
  GIF,
  ID3,
  JPEG,
  MP3,
  OGG,
  PDF,
  PNG,
  WAV,
  WEBP,
  zip,
} from '../../support/typed-files.ts'

/** Detects the type of a file that comes in pieces of this size. */
async function detect(content: Uint8Array | string, size = 65_536): Promise<string | undefined> {
  const bytes = Buffer.from(content)
  const detector = new TypeDetector()
  for (let at = 0; at < bytes.length; at += size) detector.push(bytes.subarray(at, at + size))
  return detector.finish(bytes.length, async (at, length) => bytes.subarray(at, at + length))
}

const docx = () => zip(buildDocumentEntries('docx'))
const text = 'text/plain'
const json = 'application/json'
const ndjson = 'application/x-ndjson'

const ACCEPTED: [string, Uint8Array | string, string][] = [
  ['PDF', PDF, 'application/pdf'],
  ['a PDF after a blank line', Buffer.concat([Buffer.from('\r\n \n'), PDF]), 'application/pdf'],
  [
    'J01 a PDF after a line of rubbish',
    Buffer.concat([Buffer.from('rubbish\n'), PDF, Buffer.from([0x80, 0xff])]),
    'application/pdf',
  ],
  ['PNG', PNG, 'image/png'],
  ['JPEG', JPEG, 'image/jpeg'],
  ['GIF', GIF, 'image/gif'],
  ['WebP', WEBP, 'image/webp'],
  ['MP3', MP3, 'audio/mpeg'],
  ['MP3 with ID3', ID3, 'audio/mpeg'],
  ['WAV', WAV, 'audio/wav'],
  ['FLAC', FLAC, 'audio/flac'],
  ['OGG', OGG, 'audio/ogg'],
  ...Object.entries(DOCUMENTS).map(
    ([kind, { type }]) =>
      [kind, zip(buildDocumentEntries(kind as keyof typeof DOCUMENTS)), type] as [
        string,
        Buffer,
        string,
      ],
  ),
  ['an object', '{"a":[1,-2.5e+3,"\\u00e4\\n",true,false,null,{}]}', json],
  ['an array over lines', '\ufeff[\n  1,\n  2\n]\n', json],
  ['two objects on lines', '{"a":1}\n{"a":2}\n', ndjson],
  ['arrays on lines, with empty ones', '[1]\r\n\r\n[2]\r\n', ndjson],
  ['records', 'name,age\nAda,36\n"Lovelace, Ada",36\n', 'text/csv'],
  ['records with semicolons', 'name;age\nAda;36', 'text/csv'],
  ['records with tabs', 'name\tage\nAda\t36', 'text/csv'],
  ['records over lines', 'a,b\n"x\ny",2\n', 'text/csv'],
  ['a heading', '# Title\n\nText', 'text/markdown'],
  ['a list and a link', 'See [this](https://x.example)\n\n- one\n- two', 'text/markdown'],
  ['code and bold', '**Note**\n```js\nx\n```\n', 'text/markdown'],
  ['words', 'Hello, world', text],
  ['prose with commas', 'Dear Ada, hello\nI am, yours, truly\n', text],
  ['prose with as many commas', 'Dear Ada, hello\nI am, yours\n', text],
  ['a number', '42', text],
  ['a JSON text alone', '"hello"', text],
  ['almost JSON', '{"a":1,}', text],
  ['JSON twice on a line', '{} {}', text],
  ['objects over lines', '{\n"a":1}\n{\n"a":2}', text],
  ['a script', '#!/bin/sh\n# one\n\n# two\necho hi\n', text],
  ['a byte order mark', '\ufeffhello', text],
  ['four-byte characters', '𝄞'.repeat(20_000), text],
  ['a log in colours', '\u001b[31mred\u001b[0m\n', text],
]

describe('the type of', () => {
  test.each(ACCEPTED)('%s, however it is split', async (_, content, type) => {
    expect(await detect(content)).toBe(type)
    expect(await detect(content, 1)).toBe(type)
    expect(await detect(content, 7)).toBe(type)
  })
})

const HTML = '<!doctype html><script>alert(1)</script>'

// Files that are two things, or none: X-39 of the catalogue of failures.
const POLYGLOTS: [string, Uint8Array | string, string | undefined][] = [
  ['PNG and HTML', Buffer.concat([PNG, Buffer.from(HTML)]), 'image/png'],
  ['HTML and PNG', Buffer.concat([Buffer.from(HTML), PNG]), undefined],
  ['a PNG’s signature and HTML', Buffer.concat([PNG.subarray(0, 8), Buffer.from(HTML)]), undefined],
  [
    'GIF and JavaScript',
    Buffer.concat([Buffer.from('GIF89a/*'), GIF.subarray(8), Buffer.from('*/=1;alert(1)')]),
    'image/gif',
  ],
  ['a GIF’s first word as a script', 'GIF=1;alert(1)', text],
  ['GIF and PHP', Buffer.concat([GIF, Buffer.from('<?php phpinfo();')]), 'image/gif'],
  ['JPEG and a comment of HTML', Buffer.concat([JPEG, Buffer.from(HTML)]), 'image/jpeg'],
  ['PDF and ZIP', Buffer.concat([PDF, docx()]), 'application/pdf'],
  ['ZIP and PDF', Buffer.concat([zip({ a: new Uint8Array(1) }), PDF]), undefined],
  ['HTML before a PDF', Buffer.concat([Buffer.from(HTML), PDF]), undefined],
  ['a program before a PDF', Buffer.concat([Buffer.from('MZ\x90\0\n'), PDF]), undefined],
  [
    'a script before a PDF',
    Buffer.concat([Buffer.from('#!/bin/sh\n'), PDF, Buffer.from([0x80, 0xff])]),
    undefined,
  ],
  [
    'a PDF within a line',
    Buffer.concat([Buffer.from('see '), PDF, Buffer.from([0x80, 0xff])]),
    undefined,
  ],
  ['a PDF’s name alone', '%PDF is a format', text],
  ['a program and a DOCX', Buffer.concat([Buffer.from('MZ\x90\0'), docx()]), undefined],
  ['a DOCX and HTML', Buffer.concat([docx(), Buffer.from(HTML)]), undefined],
  ['a plain ZIP', zip({ 'a.txt': Buffer.from('x') }), undefined],
  [
    'a ZIP with a DOCX’s names',
    zip({
      '[Content_Types].xml': Buffer.from('<Types/>'),
      '_rels/.rels': Buffer.alloc(1),
      'word/document.xml': Buffer.alloc(1),
    }),
    undefined,
  ],
  ['a JAR', zip({ 'META-INF/MANIFEST.MF': Buffer.from('x') }), undefined],
  ['an EPUB', zip({ mimetype: [Buffer.from('application/epub+zip'), { level: 0 }] }), undefined],
  ['SVG', '<svg xmlns="http://www.w3.org/2000/svg"><script>alert(1)</script></svg>', text],
  ['XML', '<?xml version="1.0"?><a/>', text],
  ['HTML', HTML, text],
  ['UTF-16 with a mark', Buffer.from('\ufeffhello', 'utf16le'), undefined],
  ['UTF-16 without one', Buffer.from('hello', 'utf16le'), undefined],
  ['Latin-1', Buffer.from('caf\xe9 olé', 'latin1'), undefined],
  ['a shebang', '#!/usr/bin/env python3\nprint(1)\n', text],
  ['ELF', Buffer.from('\x7fELF\x02\x01\x01\0', 'latin1'), undefined],
  ['MP4', Buffer.from('\0\0\0\x18ftypmp42\0\0\0\0mp42isom', 'latin1'), undefined],
  ['AVI in RIFF', Buffer.from('RIFF\x24\0\0\0AVI LIST', 'latin1'), undefined],
  ['gzip', Buffer.from([0x1f, 0x8b, 8, 0, 0, 0, 0, 0, 0, 3]), undefined],
  ['an MPEG frame of layer I', Buffer.from([0xff, 0xff, 0x90, 0x64, 0, 0, 0, 0]), undefined],
  ['a text with a NUL at its end', `${'a'.repeat(100_000)}\0`, undefined],
  [
    'a text with a wrong byte far in',
    Buffer.concat([Buffer.alloc(200_000, 'a'), Buffer.from([0xff])]),
    undefined,
  ],
  ['a text that ends within a character', Buffer.from('hallo €').subarray(0, -1), undefined],
  ['an encoded surrogate', Buffer.from([0x61, 0xed, 0xa0, 0x80]), undefined],
  ['an overlong character', Buffer.from([0x61, 0xc0, 0xaf]), undefined],
]

describe('X-39 a file of two kinds:', () => {
  test('there are 24 and more', () => expect(POLYGLOTS.length).toBeGreaterThan(23))
  test.each(POLYGLOTS)('%s', async (_, content, type) => {
    expect(await detect(content)).toBe(type)
    expect(await detect(content, 3)).toBe(type)
  })
})

/** Changes bytes of a copy. */
function patch(bytes: Buffer, change: (copy: Buffer) => void): Buffer {
  const copy = Buffer.from(bytes)
  change(copy)
  return copy
}
const END = Buffer.from('PK\x05\x06', 'latin1')
const ENTRY = Buffer.from('PK\x01\x02', 'latin1')

describe('an archive that lies', () => {
  const bomb = () => {
    const types = buildDocumentEntries('docx')['[Content_Types].xml'] ?? new Uint8Array(0)
    const padded = Buffer.concat([Buffer.alloc(40 * 1024 * 1024, ' '), types])
    return zip({ ...buildDocumentEntries('docx'), '[Content_Types].xml': padded })
  }
  const lies: [string, () => Buffer][] = [
    ['a list of types that unpacks to 40 MiB', bomb],
    [
      'the same, which claims to be small',
      () => patch(bomb(), copy => copy.writeUInt32LE(100, copy.indexOf(ENTRY) + 24)),
    ],
    [
      'a packed size of 4 GiB',
      () => patch(docx(), copy => copy.writeUInt32LE(0xffffffff, copy.indexOf(ENTRY) + 20)),
    ],
    [
      'an entry beyond the end',
      () => patch(docx(), copy => copy.writeUInt32LE(0x7fffffff, copy.indexOf(ENTRY) + 42)),
    ],
    [
      'a directory of 4 GiB',
      () => patch(docx(), copy => copy.writeUInt32LE(0xffffffff, copy.indexOf(END) + 12)),
    ],
    [
      'a directory at another place',
      () => patch(docx(), copy => copy.writeUInt32LE(0, copy.indexOf(END) + 16)),
    ],
    [
      '65,535 entries',
      () => patch(docx(), copy => copy.writeUInt16LE(0xffff, copy.indexOf(END) + 10)),
    ],
    ['no entries', () => patch(docx(), copy => copy.writeUInt16LE(0, copy.indexOf(END) + 10))],
    ['no end', () => docx().subarray(0, -22)],
    [
      'a comment that is not there',
      () => patch(docx(), copy => copy.writeUInt16LE(9, copy.length - 2)),
    ],
    ['another name in its local head', () => patch(docx(), copy => void copy.write('X', 30))],
    [
      'another method',
      () => patch(docx(), copy => copy.writeUInt16LE(99, copy.indexOf(ENTRY) + 10)),
    ],
    [
      'a main part that is missing',
      () => {
        const { 'word/document.xml': _, ...rest } = buildDocumentEntries('docx')
        return zip(rest)
      },
    ],
    [
      'a main part with macros',
      () =>
        zip({
          ...buildDocumentEntries('docx'),
          '[Content_Types].xml': Buffer.from(
            '<Types><Override PartName="/word/document.xml" ContentType="application/vnd.ms-word.document.macroEnabled.main+xml"/></Types>',
          ),
        }),
    ],
  ]
  test.each(lies)('%s: it is refused', async (_, build) => {
    expect(await detect(build())).toBeUndefined()
  })

  test('reads no more than the directory and one entry', async () => {
    const bytes = zip({
      ...buildDocumentEntries('docx'),
      'media/a.bin': [Buffer.alloc(20_000_000), { level: 0 }],
    })
    const detector = new TypeDetector()
    detector.push(bytes.subarray(0, 65_536))
    let read = 0
    const type = await detector.finish(bytes.length, async (at, length) => {
      read += length
      return bytes.subarray(at, at + length)
    })
    expect([type, read < 200_000]).toEqual([DOCUMENTS.docx.type, true])
  })

  test('every byte of a document may be wrong without harm', async () => {
    const bytes = docx()
    for (let at = 4; at < bytes.length; at++) {
      const wrong = patch(bytes, copy => {
        copy[at] = (copy[at] as number) ^ 0xff
      })
      expect([undefined, DOCUMENTS.docx.type]).toContain(await detect(wrong))
    }
  })
})

describe('JSON', () => {
  const integers = createSeededIntegers(SEED)
  const pick = <Item>(items: Item[]) => items[integers(items.length)] as Item

  function drawValue(depth: number): string {
    const space = () => pick(['', '', ' ', '\t', '\r\n'])
    const count = integers(4)
    const items = (draw: () => string) => Array.from({ length: count }, draw).join(',')
    if (depth > 3 || integers(3) === 0)
      return pick(['1', '-0', '0.5e-7', 'true', 'false', 'null', '""', '"\\u12aF\\"\\\\ ä𝄞"'])
    if (integers(2) === 0)
      return `[${space()}${items(() => space() + drawValue(depth + 1) + space())}]`
    return `{${space()}${items(() => `"k"${space()}:${space()}${drawValue(depth + 1)}`)}${space()}}`
  }

  const isObject = (value: string) => {
    try {
      const parsed = JSON.parse(value)
      return typeof parsed === 'object' && parsed !== null
    } catch {
      return false
    }
  }

  test('is told apart as a parser does, right or damaged', async () => {
    for (let i = 0; i < (LONG ? 60_000 : 600); i++) {
      const whole = `{"a":${drawValue(0)}}`
      const at = integers(whole.length)
      const damage = pick(['', ...'{}[]",:x0-.e \\\n'])
      const value =
        integers(2) === 0 ? whole : whole.slice(0, at) + damage + whole.slice(at + integers(2))
      // Several values on lines are no JSON for a parser.
      const type = await detect(value, 1 + integers(9))
      if (type === ndjson)
        expect(value.split('\n').every(line => line.trim() === '' || isObject(line))).toBe(true)
      else expect([value, type === json]).toEqual([value, isObject(value.replace(/^\ufeff/, ''))])
    }
  })

  test('that nests without end is text', async () => {
    expect(await detect('['.repeat(100_000))).toBe(text)
    expect(await detect('['.repeat(1_024) + ']'.repeat(1_024))).toBe(json)
    expect(await detect('['.repeat(1_025) + ']'.repeat(1_025))).toBe(text)
  })
})

test('text that a slow search would stop at is judged', async () => {
  for (const unit of ['[', '![', '**', '__a', '|', '"', '[a](', '1', '# '])
    expect(await detect(unit.repeat(70_000))).toMatch(/^text\//)
})

test('the bombs above are small enough to be unpacked', () => {
  expect(deflateRawSync(Buffer.alloc(40 * 1024 * 1024)).length).toBeLessThan(1024 * 1024)
})
