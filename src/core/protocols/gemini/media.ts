import { invalid } from '../../errors.ts'
import { dataUrl, isDataUrl } from '../../kernel/data-url.ts'
import { type Json, own } from '../../kernel/json.ts'
import type { Block } from '../../language/message.ts'

export type MediaBlock = Extract<Block, { type: 'image' | 'audio' | 'video' | 'file' }>

/** A picture, sound, film or document as a part: its bytes, or the address where Google fetches them. */
export function mediaPart(block: MediaBlock): Json {
  switch (block.type) {
    case 'image':
      return fromUrl(block.url, 'image/jpeg')
    case 'video':
      return fromUrl(block.url, 'video/mp4')
    case 'audio':
      return inline(soundType(block.format.toLowerCase()), block.data)
    case 'file':
      return filePart(block.file)
  }
}

/** The chat API's formats of sound as Google names them. */
const AUDIO: Record<string, string> = { pcm16: 'audio/pcm', pcm24: 'audio/pcm', mpeg: 'audio/mp3', mpga: 'audio/mp3' }

const soundType = (format: string): string => own(AUDIO, format) ?? `audio/${format}`

/** What a file is by the end of its name, where nothing else says it. */
const BY_ENDING: Record<string, string> = {
  pdf: 'application/pdf',
  txt: 'text/plain',
  md: 'text/markdown',
  csv: 'text/csv',
  html: 'text/html',
  json: 'application/json',
  xml: 'text/xml',
  png: 'image/png',
  jpg: 'image/jpeg',
  jpeg: 'image/jpeg',
  webp: 'image/webp',
  heic: 'image/heic',
  heif: 'image/heif',
  gif: 'image/gif',
  mp4: 'video/mp4',
  mpeg: 'video/mpeg',
  mpg: 'video/mpeg',
  mov: 'video/mov',
  webm: 'video/webm',
  wmv: 'video/wmv',
  avi: 'video/avi',
  flv: 'video/x-flv',
  '3gp': 'video/3gpp',
  mp3: 'audio/mp3',
  wav: 'audio/wav',
  ogg: 'audio/ogg',
  flac: 'audio/flac',
  aac: 'audio/aac',
  aiff: 'audio/aiff',
}

const UNKNOWN = 'application/octet-stream'

function filePart({ filename = '', file_data, file_id }: Extract<Block, { type: 'file' }>['file']): Json {
  if (file_data === undefined && file_id === undefined) throw invalid('file: expected file_data or file_id, found neither', 'file')
  return fromUrl(file_data ?? file_id ?? '', byEnding(filename) ?? 'application/pdf')
}

// Films at YouTube, files of the Files API and of Cloud Storage: what is no data URL by now is for Google to fetch.
function fromUrl(url: string, otherwise: string): Json {
  if (!isDataUrl(url)) return { fileData: { mimeType: byEnding(pathOf(url)) ?? otherwise, fileUri: url } }
  const { media_type, data } = dataUrl(url)
  return inline(media_type === UNKNOWN ? otherwise : media_type, data)
}

const inline = (mimeType: string, data: string): Json => ({ inlineData: { mimeType, data } })

const pathOf = (url: string): string => (URL.canParse(url) ? new URL(url).pathname : url)

const byEnding = (name: string): string | undefined => own(BY_ENDING, name.slice(name.lastIndexOf('.') + 1).toLowerCase())
