import { type Static, Type } from '@sinclair/typebox'
import { closed, oneOf, Uuid } from '../../base/schema-builders.ts'
import { LARGEST_FILE } from './quota.ts'

export const FileId = Type.String({ pattern: '^or_file_[0-9a-f]{32}$', maxLength: 40 })

const SCOPE = {
  workspace_id: Type.Optional(Uuid),
  provider: Type.Optional(oneOf('openai', 'anthropic')),
  beta: Type.Optional(
    Type.String({ maxLength: 16, description: 'What Anthropic’s clients send; without an effect' }),
  ),
}

/** What OpenAI's clients may say that a file is for. */
export const PURPOSES = ['assistants', 'batch', 'fine-tune', 'vision', 'user_data', 'evals']

/** What a file is for that was uploaded without a purpose. */
export const USUAL_PURPOSE = 'user_data'

/** What lists may be narrowed by: what the gateway itself writes has a purpose too. */
const ListedPurpose = Type.Optional(oneOf(...PURPOSES, 'batch_output', 'assistants_output'))

/** The query of every request about files (wire reference F.1). */
export const FileScope = Type.Object(SCOPE, closed)
export type FileScope = Static<typeof FileScope>

/**
 * The query of `GET /files`: paged by `cursor`, by `after` and `order` as OpenAI does, by
 * `after_id` and `before_id` as Anthropic does, or by `page` as its newer clients do.
 */
export const FileListQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    cursor: Type.Optional(FileId),
    ...SCOPE,
    after: Type.Optional(FileId),
    after_id: Type.Optional(FileId),
    before_id: Type.Optional(FileId),
    page: Type.Optional(FileId),
    order: Type.Optional(oneOf('asc', 'desc')),
    purpose: ListedPurpose,
  },
  closed,
)
export type FileListQuery = Static<typeof FileListQuery>

const ProviderFileId = Type.String({ pattern: '^[\\w-]{1,128}$', maxLength: 128 })

/** The query of a list of files at a provider: their ids are its own. */
export const ProviderFileQuery = Type.Object(
  {
    limit: Type.Optional(Type.Integer({ minimum: 1, maximum: 1_000 })),
    ...SCOPE,
    cursor: Type.Optional(ProviderFileId),
    after: Type.Optional(ProviderFileId),
    after_id: Type.Optional(ProviderFileId),
    before_id: Type.Optional(ProviderFileId),
    page: Type.Optional(ProviderFileId),
    order: Type.Optional(oneOf('asc', 'desc')),
  },
  closed,
)
export type ProviderFileQuery = Static<typeof ProviderFileQuery>

/** What `gateway files upload` takes beside the file: its workspace, and its name if another. */
export const FileUpload = Type.Object({
  workspace_id: Type.Optional(Uuid),
  filename: Type.Optional(Type.String({ maxLength: 1_024 })),
})
export type FileUpload = Static<typeof FileUpload>

/** What is sent with `POST /files`, as the description shows it. */
export const NewFile = Type.Object({
  file: Type.String({
    format: 'binary',
    maxLength: LARGEST_FILE,
    description: 'The file, with its name',
  }),
  purpose: Type.Optional(
    Type.Union(
      PURPOSES.map(purpose => Type.Literal(purpose)),
      { description: 'What OpenAI’s clients say that it is for; it has no effect but to be told' },
    ),
  ),
})
