import { detectImageType } from '../../base/data-url.ts'
import type { FormFile } from './dialect.ts'

/** Returns a picture of a form as a data URL; undefined unless its first bytes are a picture's. */
export function toPictureUrl({ head }: FormFile): string | undefined {
  const data = Buffer.from(head.buffer, head.byteOffset, head.byteLength).toString('base64')
  const type = detectImageType(data)
  return type && `data:${type};base64,${data}`
}
