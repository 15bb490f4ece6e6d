import { type BlobPlace, checkPlace, isOwnName } from '../../resources/files/blobs.ts'

/** Returns the path of a blob, of ids only. Names grow with time, so their ends differ most. */
export function joinPlace(place: BlobPlace): string {
  checkPlace(place)
  return `${place.workspace_id}/${place.name.slice(-2)}/${place.name}`
}

/** Returns the place that a path stands for; undefined where it is no blob's. */
export function splitPlace(path: string): BlobPlace | undefined {
  const [workspace_id = '', shard, name = '', ...rest] = path.split('/')
  const isPlace = rest.length === 0 && isOwnName(workspace_id) && isOwnName(name)
  return isPlace && name.slice(-2) === shard ? { workspace_id, name } : undefined
}
