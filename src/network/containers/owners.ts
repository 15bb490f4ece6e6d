/** Who has the homes of containers, where several servers share a store: one process has each. */
export interface HomeOwners {
  /**
   * Takes a home for this process. Null where it has it now; the name of the server that has it
   * otherwise, which is told that it is wanted.
   */
  take(id: string): Promise<string | null>
  /** Lets another one take it. */
  giveBack(id: string): Promise<void>
  /** Lists the homes of this process that another one wants. */
  listWanted(): Promise<string[]>
}
