import type { Gateway } from '../../src/app/gateway.ts'
import { openContainer } from '../../src/network/containers/commands.ts'
import { getHomeBlob } from '../../src/network/containers/home.ts'
import { buildFileId } from '../../src/network/containers/names.ts'
import { buildHomeQuota } from '../../src/network/containers/quota.ts'
import type { ContainerFile } from '../../src/network/containers/store.ts'

/** Puts files into a container’s home, as if commands had made them. Returns its records. */
export async function makeHome(
  gateway: Gateway,
  workspace_id: string,
  name: string,
  contents: Record<string, string | Uint8Array>,
) {
  const container = await openContainer(gateway, workspace_id, name)
  const created_at = '2026-03-04T05:06:07.000Z'
  for (const [path, text] of Object.entries(contents)) {
    const bytes = Buffer.from(text as string)
    const sha256 = new Bun.CryptoHasher('sha256').update(bytes).digest('hex')
    const file: ContainerFile = {
      sha256,
      ...{ container_id: container.id, path, size_bytes: bytes.length, mode: 0o644 },
      ...{ blob: gateway.ids.uuid().replaceAll('-', ''), promoted_id: null, created_at },
    }
    const draft = await gateway.blobs.create(getHomeBlob(container, file))
    await draft.write(bytes)
    const quota = buildHomeQuota(gateway.config, workspace_id)
    const change = { container_id: container.id, put: [file], removed: [] }
    const last_used_at = gateway.clock.now().toISOString()
    await draft.keep(() => gateway.store.containers.changeFiles({ ...change, last_used_at }, quota))
  }
  return container
}

/** Makes a file of a container, and returns what names it in a path. */
export async function makeContainerFile(
  gateway: Gateway,
  workspace_id: string,
  path = 'out/report.csv',
) {
  const { name } = await makeHome(gateway, workspace_id, 'sess_report', { [path]: 'a,b\n1,2\n' })
  return { container_id: name, file_id: buildFileId(path) }
}
