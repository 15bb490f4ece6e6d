/** The types that are accepted, by the names that the library has for them. */
const ACCEPTED: Record<string, string> = {
  'application/pdf': 'application/pdf',
  'image/png': 'image/png',
  'image/apng': 'image/png',
  'image/jpeg': 'image/jpeg',
  'image/gif': 'image/gif',
  'image/webp': 'image/webp',
  'audio/mpeg': 'audio/mpeg',
  'audio/wav': 'audio/wav',
  'audio/flac': 'audio/flac',
  'audio/x-flac': 'audio/flac',
  'audio/ogg': 'audio/ogg',
  'audio/ogg; codecs=opus': 'audio/ogg',
}

/** What a file has to begin with. The library accepts less of some. */
const STARTS: Record<string, (head: Buffer) => boolean> = {
  'application/pdf': head => /^%PDF-\d/.test(head.toString('latin1', 0, 6)),
  'image/png': head =>
    head.toString('latin1', 0, 8) === '\x89PNG\r\n\x1a\n' &&
    head.toString('latin1', 12, 16) === 'IHDR',
  'image/gif': head => /^GIF8[79]a/.test(head.toString('latin1', 0, 6)) && head.length >= 13,
  'audio/mpeg': head => head.toString('latin1', 0, 3) === 'ID3' || isMpegFrame(head),
}

/**
 * Finds the type of a picture, a sound or a PDF by its first bytes; undefined for any other. Not
 * for archives, which the library would unpack.
 */
export async function findMediaType(head: Buffer): Promise<string | undefined> {
  const { fileTypeFromBuffer } = await import('file-type')
  const found = await fileTypeFromBuffer(head).catch(() => undefined)
  const type = found && ACCEPTED[found.mime]
  return type !== undefined && (STARTS[type]?.(head) ?? true) ? type : undefined
}

// A frame of layer III whose bit rate and sampling rate exist. (ISO/IEC 11172-3, 2.4.2.3)
function isMpegFrame(head: Buffer): boolean {
  const [sync = 0, layer = 0, rates = 0] = head
  const isSynced = sync === 0xff && (layer & 0xe0) === 0xe0
  const isLayer3 = (layer & 0x06) === 0x02 && (layer & 0x18) !== 0x08
  return isSynced && isLayer3 && rates >> 4 !== 0xf && (rates & 0x0c) !== 0x0c
}
