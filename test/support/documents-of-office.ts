import { deflateSync } from 'node:zlib'
import { zipSync } from 'fflate'

/** Builds a zip file of these texts and bytes by name. */
export const buildZip = (files: Record<string, string | Uint8Array>): Uint8Array<ArrayBuffer> =>
  new Uint8Array(
    zipSync(
      Object.fromEntries(
        Object.entries(files).map(([name, file]) => [
          name,
          typeof file === 'string' ? new TextEncoder().encode(file) : file,
        ]),
      ),
    ),
  )

/** Builds a DOCX whose body is this XML. */
export const buildDocx = (body: string, head = ''): Uint8Array<ArrayBuffer> =>
  buildZip({
    'word/document.xml': `<?xml version="1.0"?>${head}<w:document xmlns:w="w"><w:body>${body}</w:body></w:document>`,
  })

/** Builds a paragraph of a DOCX. The text is put in as it is. */
export const buildParagraph = (text: string): string =>
  `<w:p><w:r><w:t xml:space="preserve">${text}</w:t></w:r></w:p>`

/** Builds a PDF of one page with this stream of content, deflated. */
export function buildPdf(content: string | Uint8Array, catalog = ''): Uint8Array<ArrayBuffer> {
  const stream = deflateSync(content)
  const objects = [
    `<< /Type /Catalog /Pages 2 0 R ${catalog} >>`,
    '<< /Type /Pages /Kids [3 0 R] /Count 1 >>',
    '<< /Type /Page /Parent 2 0 R /MediaBox [0 0 600 800] /Contents 4 0 R ' +
      '/Resources << /Font << /F1 5 0 R >> >> >>',
    Buffer.concat([
      Buffer.from(`<< /Length ${stream.length} /Filter /FlateDecode >>\nstream\n`),
      stream,
      Buffer.from('\nendstream'),
    ]),
    '<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>',
  ]
  const parts: Buffer[] = [Buffer.from('%PDF-1.4\n')]
  const offsets: number[] = []
  const add = (bytes: Buffer) => parts.push(bytes)
  for (const [i, object] of objects.entries()) {
    offsets.push(Buffer.concat(parts).length)
    add(Buffer.from(`${i + 1} 0 obj\n`))
    add(typeof object === 'string' ? Buffer.from(object) : object)
    add(Buffer.from('\nendobj\n'))
  }
  const table = offsets.map(offset => `${String(offset).padStart(10, '0')} 00000 n \n`).join('')
  const start = Buffer.concat(parts).length
  add(Buffer.from(`xref\n0 6\n0000000000 65535 f \n${table}`))
  add(Buffer.from(`trailer\n<< /Size 6 /Root 1 0 R >>\nstartxref\n${start}\n%%EOF\n`))
  return new Uint8Array(Buffer.concat(parts))
}

/** Builds the content of a PDF's page that shows this text. */
export const buildPageContent = (text: string): string => `BT /F1 12 Tf 50 700 Td (${text}) Tj ET`
