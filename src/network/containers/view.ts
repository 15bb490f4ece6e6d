import { showName } from '../../base/printable.ts'
import { defineAudit, identifyById } from '../../resources/audit/entry.ts'
import { buildFileId } from './names.ts'
import type { Container, ContainerFile } from './store.ts'

/** Shows a file of a container (wire reference F.4). */
export const showContainerFile = (container: Container, file: ContainerFile) => ({
  id: buildFileId(file.path),
  object: 'container.file' as const,
  container_id: container.name,
  created_at: Math.floor(Date.parse(file.created_at) / 1000),
  bytes: file.size_bytes,
  path: showName(file.path),
  source: 'assistant' as const,
})

/** Shows one page of a container’s files. */
export function showContainerFiles(
  container: Container,
  files: ContainerFile[],
  has_more: boolean,
) {
  const data = files.map(file => showContainerFile(container, file))
  return {
    object: 'list' as const,
    data,
    first_id: data[0]?.id ?? null,
    last_id: data.at(-1)?.id ?? null,
    has_more,
  }
}

/** Shows that an answer has made a file (wire reference D.4). */
export const citeContainerFile = ({ name }: Container, { path }: ContainerFile) => ({
  type: 'container_file_citation' as const,
  container_id: name,
  file_id: buildFileId(path),
  filename: showName(path),
  start_index: 0,
  end_index: 0,
})

/** Makes the audit entry of a container that was ended. */
export const auditContainer = defineAudit<Container>('containers', { identify: identifyById })
