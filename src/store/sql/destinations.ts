import type { Kysely, Selectable } from 'kysely'
import type { Destination, DestinationStore } from '../../observability/destinations/store.ts'
import { tooMany } from '../../observability/destinations.ts'
import { buildAuditInsert } from './audit.ts'
import { buildDestinationsDelete } from './destinations/erasing.ts'
import { type Erase, eraseLeft } from './erasing.ts'
import type { DestinationTable, Tables } from './tables.ts'
import { checkWorkspaceReference } from './workspaces.ts'
import { type Check, check, checkFound, parseList, toColumns, type Write } from './write.ts'

/** Creates the store of destinations in SQL. Their configs are sealed. */
export function createDestinationStore(
  kysely: Kysely<Tables>,
  write: Write,
  erase: Erase,
): DestinationStore {
  return {
    async all(ids) {
      const rows = await kysely
        .selectFrom('destinations')
        .selectAll()
        .where('deleted_at', 'is', null)
        .$if(ids !== undefined, some => some.where('id', 'in', ids ?? []))
        .orderBy('created_at')
        .orderBy('id')
        .execute()
      return rows.map(toDestination)
    },
    insert: (destination, most, entry) =>
      write(
        checkWorkspaceReference(kysely, destination.workspace_id),
        checkFewerThan(kysely, destination, most),
        kysely.insertInto('destinations').values(toRow(destination)),
        buildAuditInsert(kysely, entry),
      ),
    update: (id, change, entry) =>
      write(
        checkDestination(kysely, id),
        kysely.updateTable('destinations').set(toDestinationColumns(change)).where('id', '=', id),
        buildAuditInsert(kysely, entry),
      ),
    async remove(id, deleted_at, entry) {
      await write(
        checkDestination(kysely, id),
        ...buildDestinationsDelete(kysely, deleted_at, 'id', id),
        buildAuditInsert(kysely, entry),
      )
      await eraseLeft(erase)
    },
  }
}

const checkDestination = (kysely: Kysely<Tables>, id: string): Check =>
  checkFound(
    kysely
      .selectFrom('destinations')
      .select('id')
      .where('id', '=', id)
      .where('deleted_at', 'is', null),
    'Destination',
  )

const checkFewerThan = (
  kysely: Kysely<Tables>,
  { workspace_id, type }: Destination,
  most: number,
): Check =>
  check(
    kysely
      .selectFrom('destinations')
      .select('id')
      .where('workspace_id', '=', workspace_id)
      .where('type', '=', type)
      .where('deleted_at', 'is', null),
    ({ length }) => {
      if (length >= most) throw tooMany(type, most)
    },
  )

type Row = Selectable<DestinationTable>

function toDestination({ deleted_at: _, ...row }: Row): Destination {
  return {
    ...row,
    sealed: row.sealed ?? '',
    enabled: row.enabled === 1,
    api_key_hashes: parseList(row.api_key_hashes),
    regions: JSON.parse(row.regions),
    broadcast_generation_cost: row.broadcast_generation_cost === 1,
    broadcast_generation_identity: row.broadcast_generation_identity === 1,
    broadcast_generation_request_context: row.broadcast_generation_request_context === 1,
    filter_rules: row.filter_rules === null ? null : JSON.parse(row.filter_rules),
    privacy_mode: row.privacy_mode === 1,
  }
}

function toDestinationColumns(change: Partial<Destination>): Partial<Row> {
  const { filter_rules, ...rest } = change
  const rules = filter_rules && JSON.stringify(filter_rules)
  return {
    ...toColumns<Partial<Row>>(rest),
    ...(rules === undefined ? {} : { filter_rules: rules }),
  }
}

const toRow = (destination: Destination) =>
  ({ ...toDestinationColumns(destination), deleted_at: null }) as Row
