import type { FileListQuery } from '../../resources/files/schema.ts'
import { type Fields, type Flags, fill, fillWorkspace, offer } from '../fields.ts'
import { defineNoun, defineVerbs, printDeleted, withInput } from '../noun.ts'
import { parseNumber } from '../options.ts'
import { print, printFields } from '../output.ts'
import type { DownloadFlags } from './files/transfer.ts'

const verb = defineVerbs(
  async () => ({
    ...(await import('../../resources/files.ts')),
    ...(await import('../../resources/files/schema.ts')),
    ...(await import('./files/transfer.ts')),
  }),
  { args: { id: 'its id', path: 'the file to upload' } },
)

const WORKSPACE = fillWorkspace('another workspace, by id or slug')

/** A list of files goes on after an id, not at a number. */
const LIST_FIELDS: Fields[] = [
  fill('limit', '--limit <n>', 'how many at most (100)', { parse: parseNumber }),
  fill('cursor', '--cursor <id>', 'those that follow this one'),
  fill('order', '--order <order>', 'asc: oldest first; desc: newest first (desc)'),
  WORKSPACE,
]
const UPLOAD = [fill('filename', '--name <name>', 'its name, if not that of the file'), WORKSPACE]
const DOWNLOAD = [
  offer('--output <path>', 'where to write it (its name, in this directory)'),
  offer('--force', 'replace a file that exists'),
]

/** `gateway files`: files of a workspace, by the same functions and rules as over HTTP. */
export const createFilesCommand = () =>
  defineNoun('files', 'files of a workspace', [
    verb('upload <path>', 'store a file; its type is detected from its contents', UPLOAD, core =>
      withInput(core.FileUpload, core.uploadFile),
    ).printAs(answer => printFields({ ...answer })),
    verb('list', 'list the files of a workspace, newest first', LIST_FIELDS, core =>
      withInput(core.FileListQuery, (gateway, actor, query: FileListQuery) =>
        core.listFiles(gateway, actor, query),
      ),
    ).printAs(
      {
        NAME: file => file.filename,
        TYPE: file => ('mime_type' in file ? file.mime_type : null),
        BYTES: file => ('size_bytes' in file ? file.size_bytes : null),
        CREATED: file => file.created_at,
        ID: file => file.id,
      },
      ({ has_more, last_id }) => (has_more ? [`There are more: --cursor ${last_id}`] : []),
    ),
    verb(
      'get <id>',
      'show the record of a file',
      [],
      core => (gateway, actor, id) => core.getFile(gateway, actor, id),
    ).printAs(answer => printFields({ ...answer })),
    verb(
      'delete <id>',
      'delete a file, for good',
      [],
      core => (gateway, actor, id) => core.deleteFile(gateway, actor, id),
    ).printAs(printDeleted),
    verb(
      'download <id>',
      'write a file of the gateway into a file here',
      DOWNLOAD,
      (core, flags: Flags & DownloadFlags) => (gateway, actor, id) =>
        core.downloadFile(gateway, actor, id, flags),
    ).printAs(({ path }) => print(`Written: ${path}`)),
  ])
