import { afterAll, describe, expect, test } from 'bun:test'
import { join } from 'node:path'
import fc from 'fast-check'
import { GatewayError } from '../../src/base/errors.ts'
import { readDocument } from '../../src/extensions/documents/reading.ts'
import { LONGEST_TEXT } from '../../src/extensions/documents/text-sink.ts'
import { type Documents, LARGEST_DOCUMENT, openDocuments } from '../../src/extensions/documents.ts'
import {
  buildDocx,
  buildPageContent,
  buildParagraph,
  buildPdf,
  buildZip,
} from '../support/documents-of-office.ts'

// The deadline is not what is tested: the machine may be busy.
const PATIENT = { timeoutMs: 120_000 }
const documents: Documents = openDocuments(PATIENT)
afterAll(() => documents.close())

const readFile = async (name: string) =>
  new Uint8Array(await Bun.file(join(import.meta.dir, 'documents/files', name)).arrayBuffer())

const refusal = async (bytes: Uint8Array<ArrayBuffer>): Promise<string> => {
  try {
    return `read: ${JSON.stringify(await documents.read(bytes, 'The file'))}`
  } catch (thrown) {
    const { status, message } = GatewayError.from(thrown)
    return `${status} ${message}`
  }
}
const DAMAGED = '400 The file: expected a document that can be read; this one is damaged'

describe('documents of other programs', () => {
  test.each([
    [
      'pdfkit.pdf',
      'pdf',
      'Quarterly harvest report\nThe orchard gave 4,812 kg of apples.\n\n' +
        'The cellar holds 37 barrels.',
    ],
    [
      'docx.docx',
      'docx',
      '# Quarterly harvest report\nThe orchard gave 4,812 kg of apples – Größe „süß“ & <more>.\n' +
        'Sort\tWeight\nBoskoop\t2,100\n日本語 ends it.',
    ],
    [
      'write-excel-file.xlsx',
      'xlsx',
      '## Harvest\nSort\tWeight\tFresh\tPicked\nBoskoop & Söhne\t2100\tTRUE\t2026-09-01\n\t1234.5',
    ],
  ] as const)('%s is read', async (name, type, text) => {
    expect(await documents.read(await readFile(name), name)).toEqual({
      ...{ type, text, isCut: false },
      ...(type === 'pdf' ? { pages: 2 } : {}),
    })
  })

  test('a PDF that a browser has printed is read, umlauts and quotes included', async () => {
    const document = await documents.read(await readFile('chromium.pdf'), 'a')
    expect(document?.text).toContain('Größe: Äpfel „süß“, fiancée,')
    expect(document?.text).toContain('Second page: the cellar holds 37 barrels.')
  })

  test('slides are read in their order, with their notes', async () => {
    const { text = '' } = (await documents.read(await readFile('pptxgenjs.pptx'), 'a')) ?? {}
    expect(text).toStartWith(
      '## Slide 1\nQuarterly harvest report\n4,812 kg of apples & more\n\n' +
        'Notes: Mention the cellar.\n\n## Slide 2\nThe cellar holds 37 barrels\n' +
        'Sort\tWeight\nBoskoop\t2,100',
    )
    expect([...text.matchAll(/Slide number \d+/g)].map(([found]) => found)).toEqual(
      Array.from({ length: 9 }, (_, i) => `Slide number ${i + 3}`),
    )
  })

  test('bytes stay with their caller if they are a part of a larger buffer', async () => {
    const pdf = await readFile('pdfkit.pdf')
    const larger = new Uint8Array(pdf.length + 10)
    larger.set(pdf, 5)
    await documents.read(larger.subarray(5, 5 + pdf.length), 'a')
    expect(larger.length).toBe(pdf.length + 10)
  })
})

describe('what is no such document', () => {
  test.each([
    ['nothing', new Uint8Array()],
    ['text', new TextEncoder().encode('Hello')],
    ['a zip file of others', buildZip({ 'a.txt': 'Hello' })],
    ['a picture', new Uint8Array([0x89, 0x50, 0x4e, 0x47, 0x0d, 0x0a, 0x1a, 0x0a])],
  ])('%s is null', async (_, bytes) => {
    expect(await documents.read(bytes, 'The file')).toBeNull()
  })

  test('a document that is too large is refused unread', async () => {
    const bytes = new Uint8Array(LARGEST_DOCUMENT + 1)
    expect(await refusal(bytes)).toBe('400 The file: expected at most 32 MiB')
  })
})

describe('X-36 damaged documents', () => {
  test.each([
    ['a PDF without anything', new TextEncoder().encode('%PDF-1.7\n')],
    ['a zip file that is cut', buildDocx(buildParagraph('Hi')).slice(0, 60)],
    ['a tag that does not end', buildZip({ 'word/document.xml': '<w:p><w:t>Hi</w:t' })],
    ['an empty part', buildZip({ 'word/document.xml': '<' })],
  ])('%s', async (_, bytes) => {
    expect(await refusal(bytes)).toBe(DAMAGED)
  })

  test('any bytes after the marks of a document end, and the next document is read', async () => {
    const marks = ['%PDF-1.7\n1 0 obj <<', 'PK\x03\x04'].map(mark => Buffer.from(mark))
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...marks),
        fc.uint8Array({ maxLength: 2_000 }),
        async (mark, rest) => {
          await refusal(new Uint8Array(Buffer.concat([mark, rest])))
        },
      ),
      { numRuns: 40 },
    )
    const pdf = await documents.read(buildPdf(buildPageContent('Still here')), 'a')
    expect(pdf?.text).toBe('Still here')
  })

  test('a document with any byte changed is read or refused, nothing else', async () => {
    const files = await Promise.all(['docx.docx', 'pdfkit.pdf'].map(readFile))
    await fc.assert(
      fc.asyncProperty(
        fc.constantFrom(...files),
        fc.array(fc.tuple(fc.nat(), fc.nat(255)), { minLength: 1, maxLength: 20 }),
        async (file, changes) => {
          const bytes = file.slice()
          for (const [at, byte] of changes) bytes[at % bytes.length] = byte
          const outcome = await refusal(bytes)
          expect(outcome).toMatch(/^read: |^400 The file: expected a document/)
        },
      ),
      { numRuns: 60 },
    )
  })
})

describe('X-43 hostile documents', () => {
  const ENTITY =
    '<!DOCTYPE a [<!ENTITY b "bbbbbbbbbb"><!ENTITY c "&b;&b;&b;&b;&b;&b;&b;&b;"> ' +
    '<!ENTITY d SYSTEM "file:///etc/passwd">]>'

  test('a document type is refused, and with it every entity', async () => {
    expect(await refusal(buildDocx(buildParagraph('&c;&d;'), ENTITY))).toBe(DAMAGED)
    expect(await refusal(buildDocx(buildParagraph('&unknown;')))).toBe(DAMAGED)
    expect(await refusal(buildDocx(buildParagraph('&#xFFFFFFFF;')))).toBe(DAMAGED)
    const known = buildDocx(buildParagraph('&lt;&#65;&#x42;&amp;amp;&gt;'))
    expect((await documents.read(known, 'a'))?.text).toBe('<AB&amp;>')
  })

  test('a zip file that inflates to more than the bound is refused', async () => {
    const bomb = buildDocx(buildParagraph(' '.repeat(40 * 1024 * 1024)))
    expect(bomb.length).toBeLessThan(100_000)
    expect(await refusal(bomb)).toBe(DAMAGED)
  })

  test('what a zip file says of sizes is not believed', async () => {
    const true_size = 2_000_000
    const lying = (size: number) => {
      const file = buildDocx(buildParagraph('a'.repeat(true_size)))
      const view = new DataView(file.buffer)
      // The size stands in the entry of the directory at the end of the file.
      const directory = file.lastIndexOf(0x02, file.length - 40)
      const entry = findEntry(file, directory)
      view.setUint32(entry + 24, size, true)
      return file
    }
    expect(await refusal(lying(10))).toBe(DAMAGED)
    expect(await refusal(lying(20_000_000))).toBe(DAMAGED)
    expect(await refusal(lying(0xfffffff0))).toBe(DAMAGED)
  })

  test('X-44 a PDF that inflates to gigabytes is refused', async () => {
    const bomb = buildPdf(Buffer.alloc(80 * 1024 * 1024, 0x20))
    expect(bomb.length).toBeLessThan(200_000)
    expect(await refusal(bomb)).toBe(DAMAGED)
  })

  test('a text is cut at its bound', async () => {
    const long = buildDocx(buildParagraph('word '.repeat(LONGEST_TEXT / 4)))
    const read = await documents.read(long, 'a')
    expect([read?.isCut, read?.text.length]).toEqual([true, LONGEST_TEXT])
    const sheet = buildZip({
      'xl/workbook.xml': '<workbook/>',
      'xl/worksheets/sheet1.xml': `<sheetData>${'<row><c r="XFD1"><v>1</v></c></row>'.repeat(500)}</sheetData>`,
    })
    expect(await documents.read(sheet, 'a')).toMatchObject({ type: 'xlsx', isCut: true })
  })

  test('every text of a workbook is found by its number, and nothing by another', async () => {
    const numbers = [0, 1, 1_023, 1_024, 2_047, 2_048, 2_499]
    const others = [2_500, 4_096, -1, 1.5, 'x']
    const cells = [...numbers, ...others].map(number => `<c t="s"><v>${number}</v></c>`)
    const sheet = buildZip({
      'xl/workbook.xml': '<workbook/>',
      'xl/sharedStrings.xml': `<sst>${Array.from({ length: 2_500 }, (_, i) => `<si><t>text ${i}</t></si>`).join('')}</sst>`,
      'xl/worksheets/sheet1.xml': `<sheetData><row>${cells.join('')}</row></sheetData>`,
    })
    const found = (await documents.read(sheet, 'a'))?.text.split('\n').at(-1)?.split('\t')
    expect(found?.filter(text => text !== '')).toEqual(numbers.map(number => `text ${number}`))
  })

  test('X-44 a program in a PDF is not run', async () => {
    const catalog = '/OpenAction << /S /JavaScript /JS (app.alert\\(1\\)) >>'
    const pdf = buildPdf(buildPageContent('Plain'), catalog)
    expect((await documents.read(pdf, 'a'))?.text).toBe('Plain')
  })

  test('a PDF with a password is refused as such', async () => {
    expect(await readDocument(await readFile('password.pdf'))).toEqual({ problem: 'encrypted' })
  })
})

/** Finds the entry of the directory: its signature is `PK\x01\x02`. */
function findEntry(file: Uint8Array, from: number): number {
  for (let i = from; i >= 0; i--)
    if (file[i] === 0x50 && file[i + 1] === 0x4b && file[i + 2] === 1 && file[i + 3] === 2) return i
  throw new Error('No entry was found')
}

describe('the reader', () => {
  test('X-44 refuses a document that takes too long, and reads the next', async () => {
    // The first Worker never answers; the second is a real one.
    const silent = new Worker(URL.createObjectURL(new Blob(['self.onmessage = () => {}'])))
    const { startWorker } = await import('../../src/extensions/documents.ts')
    const workers = [silent]
    const impatient = openDocuments({
      startWorker: () => workers.shift() ?? startWorker(),
      ...PATIENT,
    })
    const first = impatient.read(buildPdf(buildPageContent('Never')), 'a').catch(e => e.message)
    const second = impatient.read(buildPdf(buildPageContent('Next')), 'a')
    silent.terminate()
    expect(await first).toBe('a: expected a document that can be read in time and memory')
    expect((await second)?.text).toBe('Next')
    impatient.close()
  })

  test('refuses what waits when it closes, and what comes later', async () => {
    const closing = openDocuments()
    const waiting = closing.read(buildPdf('a'), 'a').catch(e => e.status)
    closing.close()
    expect(await waiting).toBe(503)
    expect(await closing.read(buildPdf('a'), 'a').catch(e => e.status)).toBe(503)
  })

  test('O-06 refuses more than may wait', async () => {
    const small = openDocuments({ ...PATIENT, maxWaiting: 1 })
    const reads = Array.from({ length: 3 }, () =>
      small.read(buildPdf(buildPageContent('Hi')), 'a').then(
        () => 'read',
        thrown => `${thrown.status} ${thrown.message}`,
      ),
    )
    expect(await Promise.all(reads)).toEqual([
      'read',
      'read',
      '503 Too many documents are waiting to be read',
    ])
    small.close()
  })
})
