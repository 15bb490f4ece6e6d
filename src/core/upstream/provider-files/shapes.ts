import { invalid } from '../../errors.ts'
import type { ProviderFileQuery } from '../../files/schema.ts'
import type { StoredFile } from '../../files/store.ts'
import { type Json, readString } from '../../kernel/json.ts'

/** A file at a provider, as our answers show files. */
export type ProviderFile = Omit<StoredFile, 'workspace_id' | 'sha256' | 'expires_at'>

/** How the files API of a provider differs from that of others. */
export interface FilesApi {
  name: 'openai' | 'anthropic'
  headers: Record<string, string>
  /** Returns the query of a list. Throws 400 for what this provider’s lists cannot do. */
  renderList(query: ProviderFileQuery, start: string | undefined): Record<string, string>
  /** The fields of an upload beside the file. */
  renderFields(purpose: string | null): Json
  /** Reads a file; undefined for what is none. */
  readFile(value: Json): ProviderFile | undefined
}

/** What the files of these purposes are: written by OpenAI itself. They may be downloaded. */
const WRITTEN = /^(assistants_output|batch|batch_output|fine-tune|fine-tune-results|evals)$/

const openai: FilesApi = {
  name: 'openai',
  headers: {},
  renderList({ before_id, order, limit }, after) {
    if (before_id !== undefined) throw refuse('before_id')
    return { ...(limit ? { limit: String(limit) } : {}), ...defined({ after, order }) }
  },
  renderFields: purpose => ({ purpose: purpose ?? 'user_data' }),
  readFile(value) {
    const { bytes, created_at } = value
    const id = readString(value.id)
    if (id === null || typeof bytes !== 'number' || typeof created_at !== 'number') return undefined
    const purpose = readString(value.purpose) ?? 'user_data'
    return {
      ...{ id, filename: readString(value.filename) ?? id, size_bytes: bytes, purpose },
      // OpenAI says no type.
      mime_type: 'application/octet-stream',
      downloadable: WRITTEN.test(purpose),
      created_at: toIsoTime(created_at * 1000),
    }
  },
}

const anthropic: FilesApi = {
  name: 'anthropic',
  headers: { 'anthropic-version': '2023-06-01', 'anthropic-beta': 'files-api-2025-04-14' },
  renderList({ before_id, order, limit }, after_id) {
    if (order === 'asc') throw refuse('order')
    return { ...(limit ? { limit: String(limit) } : {}), ...defined({ after_id, before_id }) }
  },
  renderFields: () => ({}),
  readFile(value) {
    const { size_bytes } = value
    const id = readString(value.id)
    const created = Date.parse(readString(value.created_at) ?? '')
    if (id === null || typeof size_bytes !== 'number' || Number.isNaN(created)) return undefined
    return {
      ...{ id, filename: readString(value.filename) ?? id, size_bytes, purpose: null },
      mime_type: readString(value.mime_type) ?? 'application/octet-stream',
      downloadable: value.downloadable === true,
      created_at: toIsoTime(created),
    }
  },
}

/** The files APIs that requests may be passed on to. */
export const FILES_APIS: Record<FilesApi['name'], FilesApi> = { openai, anthropic }

const refuse = (field: string) => invalid(`${field}: expected nothing with this provider`, field)

const defined = (query: Record<string, string | undefined>): Record<string, string> =>
  Object.fromEntries(
    Object.entries(query).filter((entry): entry is [string, string] => entry[1] !== undefined),
  )

const LATEST = 8.64e15

const toIsoTime = (milliseconds: number): string =>
  new Date(Math.min(Math.max(milliseconds, 0), LATEST)).toISOString()
