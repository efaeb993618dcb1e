//! GSD files: those of real writers against their truth, and crafted ones.

mod damage;
mod fixtures;
mod large;
mod model;
mod open;
mod series;
