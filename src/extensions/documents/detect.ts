/** What a zip file starts with: a local header. */
const ZIP = [0x50, 0x4b, 0x03, 0x04]
const PDF = Buffer.from('%PDF-')
/** Readers of PDF accept as many bytes of anything before the beginning. */
const PDF_SEARCHED = 1024

/** Tells whether the bytes are those of a PDF. */
export const isPdf = (bytes: Uint8Array): boolean =>
  Buffer.from(bytes.buffer, bytes.byteOffset, Math.min(bytes.length, PDF_SEARCHED)).includes(PDF)

/** Tells whether the bytes are those of a zip file, as documents of office programs are. */
export const isZip = (bytes: Uint8Array): boolean => ZIP.every((byte, i) => bytes[i] === byte)

/** Tells by the first bytes whether this may be a document that can be read. */
export const mayBeDocument = (bytes: Uint8Array): boolean => isZip(bytes) || isPdf(bytes)
