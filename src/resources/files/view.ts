import { showName } from '../../base/printable.ts'
import { defineAudit, identifyById } from '../audit/entry.ts'
import { USUAL_PURPOSE } from './schema.ts'
import type { StoredFile } from './store.ts'

/** The shape of answers about files: our own, or that of another service's clients. */
export type FileShape = 'openrouter' | 'openai' | 'anthropic'

/**
 * Chooses the shape of an answer by the request's headers (wire reference A.8): Anthropic's clients
 * send `anthropic-version`, OpenAI's call themselves `OpenAI/…` and send `X-Stainless-*`.
 */
export function chooseShape(headers: Headers): FileShape {
  if (headers.has('anthropic-version')) return 'anthropic'
  const isOpenAi =
    /^(Async)?OpenAI\//i.test(headers.get('user-agent') ?? '') ||
    headers.keys().some(name => name.startsWith('x-stainless-'))
  return isOpenAi ? 'openai' : 'openrouter'
}

/** What is shown of a file, here or at a provider. */
type ShownFile = Omit<StoredFile, 'workspace_id' | 'sha256' | 'expires_at'> &
  Partial<Pick<StoredFile, 'expires_at'>>

/** Shows a file in a shape (wire reference F.2). */
export function showFile(file: ShownFile, shape: FileShape) {
  const { id, mime_type, size_bytes, downloadable, created_at } = file
  const filename = showName(file.filename)
  if (shape !== 'openai') {
    const type = 'file' as const
    return { _shape: shape, id, type, filename, mime_type, size_bytes, downloadable, created_at }
  }
  return {
    _shape: shape,
    id,
    object: 'file' as const,
    bytes: size_bytes,
    created_at: Math.floor(Date.parse(created_at) / 1000),
    filename,
    ...(file.expires_at ? { expires_at: Math.floor(Date.parse(file.expires_at) / 1000) } : {}),
    purpose: file.purpose ?? USUAL_PURPOSE,
    status: 'processed' as const,
  }
}

/** Shows one page of files in a shape. */
export function showFileList(files: ShownFile[], has_more: boolean, shape: FileShape) {
  const last_id = files.at(-1)?.id ?? null
  return {
    _shape: shape,
    ...(shape === 'openai' ? { object: 'list' as const } : {}),
    data: files.map(file => showFile(file, shape)),
    first_id: files[0]?.id ?? null,
    last_id,
    has_more,
    ...(shape === 'openrouter' ? { cursor: has_more ? last_id : null } : {}),
    // Anthropic’s newer clients look for this one only.
    ...(shape === 'anthropic' ? { next_page: has_more ? last_id : null } : {}),
  }
}

/** Shows that a file was deleted, in a shape. */
export const showDeletedFile = (id: string, shape: FileShape) =>
  shape === 'openai'
    ? { _shape: shape, id, object: 'file' as const, deleted: true as const }
    : { _shape: shape, id, type: 'file_deleted' as const }

/** Makes the audit entry of a change of a file. */
export const auditFile = defineAudit<StoredFile>('files', { identify: identifyById })
