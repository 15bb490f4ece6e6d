import { existsSync, statSync, writeFileSync } from 'node:fs'
import { dirname, extname } from 'node:path'
import { conflict, GatewayError, invalid, notFound } from '../../../base/errors.ts'
import { parseObject, readObject, readObjects, readString } from '../../../base/json.ts'
import { toPrintable } from '../../../base/printable.ts'
import { printNote } from '../../output.ts'
import { describeUsage } from './text.ts'

/** The formats that a file's name may ask for, by its ending. */
export const IMAGE_FORMATS: Record<string, string> = {
  '.png': 'png',
  '.jpg': 'jpeg',
  '.jpeg': 'jpeg',
  '.webp': 'webp',
  '.svg': 'svg',
}
export const SPEECH_FORMATS: Record<string, string> = {
  '.mp3': 'mp3',
  '.wav': 'wav',
  '.opus': 'opus',
  '.flac': 'flac',
  '.aac': 'aac',
  '.pcm': 'pcm',
}

/** Reads the format that the name of a file asks for. Throws 400 for any other ending. */
export function readFormat(flag: string, path: string, formats: Record<string, string>): string {
  const ending = extname(path).toLowerCase()
  const format = Object.hasOwn(formats, ending) ? formats[ending] : undefined
  if (format !== undefined) return format
  throw invalid(`${flag}: expected a name that ends in ${Object.keys(formats).join(', ')}`)
}

/**
 * Checks that a file can be made, before anything is paid for. Throws 409 for one that exists,
 * unless it may be replaced, and 404 where there is no such directory.
 */
export function checkTarget(flag: string, path: string, { force }: { force?: boolean }): void {
  const directory = dirname(path)
  if (!existsSync(directory)) throw notFound(`${flag}: there is no directory ${directory}`)
  if (!existsSync(path)) return
  if (!statSync(path).isFile()) throw conflict(`${flag}: ${path} is no file`)
  if (!force) throw conflict(`${flag}: ${path} exists; --force replaces it`)
}

/** Writes the first picture of an answer to a file, and says what it cost. */
export function savePicture(path: string, answer: Uint8Array, options: { force?: boolean }): void {
  const drawn = parseObject(Buffer.from(answer).toString()) ?? {}
  const [picture] = readObjects(drawn.data)
  const data = readString(picture?.b64_json)
  if (data === null) throw new GatewayError('provider_unavailable', 'There is no picture')
  const bytes = Buffer.from(data, 'base64')
  save(path, bytes, options)
  printNote(
    `Wrote ${toPrintable(path)}: ${bytes.length} bytes, ${describeUsage(readObject(drawn, 'usage'))}`,
  )
}

/** Writes the sound of an answer to a file. */
export function saveSpeech(path: string, sound: Uint8Array, options: { force?: boolean }): void {
  if (sound.length === 0) throw new GatewayError('provider_unavailable', 'There is no sound')
  save(path, sound, options)
  printNote(`Wrote ${toPrintable(path)}: ${sound.length} bytes`)
}

// A file that was made meanwhile is not replaced either.
const save = (path: string, bytes: Uint8Array, { force }: { force?: boolean }): void =>
  writeFileSync(path, bytes, { flag: force ? 'w' : 'wx' })
