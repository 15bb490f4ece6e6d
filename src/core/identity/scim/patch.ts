import { isObject, type Json, objects } from '../../kernel/json.ts'
import { type Attribute, named, type ResourceType } from './attributes.ts'
import { type Filter, parsePath } from './filter.ts'
import { locate, type Place, placeOf } from './match.ts'
import { refused } from './refusal.ts'
import { checkedResource, isKept, keptSingle, keptValue } from './resource.ts'

/** One operation of a patch (RFC 7644, 3.5.2). */
export interface Operation {
  op: 'add' | 'remove' | 'replace'
  path: string | undefined
  value: unknown
}

const PATCH_OP = 'urn:ietf:params:scim:api:messages:2.0:PatchOp'

/** Identity providers send a few at a time. */
const MOST_OPERATIONS = 1_000

/** Parses the operations of a body. Throws 400 `invalidSyntax` for a body that is no PatchOp. */
export function operationsOf(body: unknown): Operation[] {
  const schemas = isObject(body) ? body.schemas : undefined
  if (!isObject(body) || !Array.isArray(schemas) || !schemas.includes(PATCH_OP))
    throw refused('invalidSyntax', `schemas: expected ${PATCH_OP} among them`)
  const [, operations] =
    Object.entries(body).find(([name]) => name.toLowerCase() === 'operations') ?? []
  if (!Array.isArray(operations) || operations.length === 0)
    throw refused('invalidSyntax', 'Operations: expected a list of at least one')
  if (operations.length > MOST_OPERATIONS)
    throw refused('invalidSyntax', `Operations: expected at most ${MOST_OPERATIONS}`)
  return operations.map(operationOf)
}

// Entra ID writes "Add" and "Replace".
function operationOf(given: unknown, i: number): Operation {
  const { op, path, value }: Json = isObject(given) ? given : {}
  const known = (['add', 'remove', 'replace'] as const).find(
    one => typeof op === 'string' && op.toLowerCase() === one,
  )
  if (!known) throw refused('invalidSyntax', `Operations.${i}.op: expected add, remove or replace`)
  if (path !== undefined && path !== null && typeof path !== 'string')
    throw refused('invalidPath', `Operations.${i}.path: expected a text`)
  if (known !== 'remove' && value === undefined)
    throw refused('invalidValue', `Operations.${i}.value: expected a value`)
  return { op: known, path: path || undefined, value }
}

/**
 * Applies the operations to a copy of the resource, all or none. Only names of the schema are ever
 * written. Throws 400: `invalidPath`, `invalidValue`, `noTarget`, and `mutability` for a read-only
 * attribute.
 */
export function patched(type: ResourceType, resource: Json, operations: Operation[]): Json {
  const draft = structuredClone(resource)
  for (const { op, path, value } of operations) {
    if (path === undefined) applyWhole(type, draft, { op, value })
    else applyLocated(type, draft, { op, value, place: locateWritable(type, path) })
  }
  return checkedResource(type, draft)
}

/** What an operation does to a value, apart from where. */
type ValueChange = Pick<Operation, 'op' | 'value'>

/** An operation whose path is resolved. */
interface LocatedOperation extends ValueChange {
  place: Place
}

/**
 * Applies an operation without a path, whose value names the attributes. Okta repeats the id there,
 * which is no change.
 */
function applyWhole(type: ResourceType, draft: Json, { op, value }: ValueChange): void {
  if (op === 'remove') throw refused('noTarget', 'path: expected what to remove')
  if (!isObject(value))
    throw refused('invalidValue', 'value: expected an object where no path is given')
  for (const [path, member] of Object.entries(value)) {
    const place = placeOf(type, path)
    if (place && place.attribute?.mutability !== 'readOnly')
      applyLocated(type, draft, { op, value: member, place })
  }
}

function locateWritable(type: ResourceType, path: string): Place {
  const place = locate(type, parsePath(path))
  if (!place) throw refused('invalidPath', 'path: expected an attribute of the schema')
  if ([place.attribute, place.sub].some(attribute => attribute?.mutability === 'readOnly'))
    throw refused('mutability', `${place.attribute?.name} may not be written`)
  return place
}

function applyLocated(type: ResourceType, draft: Json, operation: LocatedOperation): void {
  const { attribute, extension } = operation.place
  if (!attribute) applyToExtension(type, draft, extension ?? '', operation)
  else if (isKept(attribute)) applyToAttribute(draft, attribute, operation)
}

function applyToAttribute(draft: Json, attribute: Attribute, operation: LocatedOperation): void {
  const { extension } = operation.place
  const holder = extension === null ? draft : objectAt(draft, extension)
  // Null means no value (RFC 7643, 2.5).
  const change = operation.value === null ? { ...operation, op: 'remove' as const } : operation
  if (attribute.multiValued) applyToList(holder, attribute, change)
  else applyToSingle(holder, attribute, change)
  if (extension !== null && Object.keys(holder).length === 0) delete draft[extension]
}

function applyToExtension(
  type: ResourceType,
  draft: Json,
  extension: string,
  { op, value }: ValueChange,
): void {
  if (op === 'remove' || value === null) delete draft[extension]
  else if (!isObject(value)) throw refused('invalidValue', `${extension}: expected an object`)
  else
    for (const [name, member] of Object.entries(value))
      applyWhole(type, draft, { op, value: { [`${extension}:${name}`]: member } })
}

function applyToSingle(
  holder: Json,
  attribute: Attribute,
  { op, value, place: { sub } }: LocatedOperation,
): void {
  if (sub) {
    const inner = objectAt(holder, attribute.name)
    assign(inner, sub, op === 'remove' ? undefined : keptSingle(sub, value))
    if (Object.keys(inner).length === 0) delete holder[attribute.name]
    return
  }
  const before = holder[attribute.name]
  const after = op === 'remove' ? undefined : (keptSingle(attribute, value) ?? before)
  assign(holder, attribute, isObject(before) && isObject(after) ? { ...before, ...after } : after)
}

function applyToList(holder: Json, attribute: Attribute, operation: LocatedOperation): void {
  const before = objects(holder[attribute.name])
  const after =
    operation.op === 'remove'
      ? removeValues(before, attribute, operation)
      : writeValues(before, attribute, operation)
  assign(holder, attribute, after.length > 0 ? after : undefined)
}

function removeValues(
  before: Json[],
  attribute: Attribute,
  { value, place: { isMeant, sub } }: LocatedOperation,
): Json[] {
  if (sub)
    return before
      .map(element => (isMeant?.(element) === false ? element : withoutMember(element, sub.name)))
      .filter(element => Object.keys(element).length > 0)
  if (isMeant) return before.filter(element => !isMeant(element))
  // Azure AD removes members by `path: "members"` and a list of them in `value`.
  if (value === undefined || value === null) return []
  const removed = new Set(objects(keptValue(attribute, value)).map(identity))
  return before.filter(element => !removed.has(identity(element)))
}

function writeValues(before: Json[], attribute: Attribute, operation: LocatedOperation): Json[] {
  const { op, value, place } = operation
  if (place.isMeant || place.sub) return changeMatching(before, attribute, operation)
  const added = objects(keptValue(attribute, value))
  if (op === 'replace') return distinct(added)
  return preferringLast(distinct([...before, ...added]), added)
}

function changeMatching(
  before: Json[],
  attribute: Attribute,
  { op, value, place }: LocatedOperation,
): Json[] {
  const { isMeant, sub } = place
  const fields = sub
    ? { [sub.name]: keptSingle(sub, value) }
    : (objects([keptSingle(attribute, value)])[0] ?? {})
  const matching = new Set(isMeant ? before.filter(isMeant) : before)
  if (matching.size === 0) return [...before, { ...buildFromFilter(place, attribute), ...fields }]
  const after = before.map(element => {
    if (!matching.has(element)) return element
    return op === 'replace' && !sub ? fields : { ...element, ...fields }
  })
  return preferringLast(
    after,
    after.filter((_, i) => matching.has(before[i] ?? {})),
  )
}

/**
 * Builds the value that a filter describes when no value matches it. Entra ID writes a first work
 * address as a replacement of `emails[type eq "work"].value`. Throws 400 `noTarget` when the filter
 * describes no value, or when the whole value should be changed.
 */
function buildFromFilter({ filter, sub }: Place, attribute: Attribute): Json {
  const fields = sub ? (filter === null ? {} : equalities(filter, attribute)) : undefined
  if (!fields) throw refused('noTarget', 'path: expected a value that is there')
  return fields
}

function equalities(filter: Filter, attribute: Attribute): Json | undefined {
  if (filter.op === 'and') {
    const all = filter.filters.map(part => equalities(part, attribute))
    return all.every(fields => fields !== undefined) ? Object.assign({}, ...all) : undefined
  }
  const sub = filter.op === 'eq' ? named(attribute.subAttributes, filter.path.name) : undefined
  return sub && filter.op === 'eq' && isKept(sub)
    ? { [sub.name]: keptSingle(sub, filter.value) }
    : undefined
}

// A new primary value makes the others non-primary (RFC 7644, 3.5.2).
function preferringLast(values: Json[], changed: Json[]): Json[] {
  const preferred = changed.findLast(one => one.primary === true)
  if (!preferred) return values
  return values.map(one =>
    one.primary === true && identity(one) !== identity(preferred)
      ? { ...one, primary: false }
      : one,
  )
}

function distinct(values: Json[]): Json[] {
  const seen = new Set<string>()
  return values.filter(one => !seen.has(identity(one)) && seen.add(identity(one)))
}

// The order of an object's members does not matter.
const identity = (value: Json): string =>
  JSON.stringify(Object.entries(value).toSorted(([a], [b]) => (a < b ? -1 : 1)))

const withoutMember = (value: Json, name: string): Json =>
  Object.fromEntries(Object.entries(value).filter(([key]) => key !== name))

function objectAt(holder: Json, name: string): Json {
  const found = holder[name]
  if (isObject(found)) return found
  const made: Json = {}
  holder[name] = made
  return made
}

function assign(holder: Json, { name }: Attribute, value: unknown): void {
  if (value === undefined) delete holder[name]
  else holder[name] = value
}
