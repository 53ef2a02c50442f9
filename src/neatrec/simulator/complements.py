"""Which products go together in the simulated supermarket.

`A = B`: each brings the other. `A > B`: A brings B, and B alone says nothing about A (cereal needs milk, milk needs no
cereal). All stand in different aisles: products of one aisle replace each other.
"""

from __future__ import annotations

COMPLEMENTS = """
Beef Hot Dogs = Hot Dog Buns
Beef Hot Dogs > Yellow Mustard
Bratwurst = Dinner Rolls
Bratwurst > Dijon Mustard
Ground Beef = Hamburger Buns
Hamburger Buns > Dill Pickle Chips
Veggie Burgers > Slider Buns
Steak Fries > Tomato Ketchup
Chicken Nuggets > Barbecue Sauce
Chicken Wings = Buffalo Sauce
Baby Back Ribs > Charcoal Briquettes
Ribeye Steak > Rosemary Sprigs
Charcoal Briquettes > Sweet Relish
Wood Skewers > Zucchini
Tortilla Chips = Salsa Roja
Tortilla Chips > Guacamole
Taco Shells = Taco Seasoning
Taco Shells > Sour Cream
Taco Seasoning > Ground Beef
Enchilada Sauce = Corn Tortillas
Refried Beans = Tostadas
Flour Tortillas > Black Beans
Potato Chips = French Onion Dip
Pita Bread = Classic Hummus
Pita Chips > Feta Crumbles
Butter Crackers = Sharp Cheddar
Water Crackers = Brie Wheel
Wheat Crackers > Goat Cheese Log
Graham Crackers = Marshmallows
Graham Crackers > Chocolate Bars
Spaghetti = Marinara Sauce
Spaghetti > Parmesan Wedge
Penne Rigate = Vodka Sauce
Elbow Macaroni > Heavy Cream
Lasagna Noodles > Shredded Mozzarella
Lasagna Noodles = Italian Sausage
Egg Noodles = Beef Stew Meat
Basil Pesto > Basil
Alfredo Sauce > Flat Parsley
Green Curry Paste > Jasmine Rice
Coconut Milk > Red Lentils
Tikka Masala Sauce = Naan
Mango Chutney > Chicken Thighs
Sushi Rice = Nori Sheets
Sushi Rice > Rice Vinegar
Sushi Rolls > Wasabi Paste
Rice Noodles > Raw Shrimp
Stir Fry Vegetables = Soy Sauce
Potstickers > Sesame Oil
Firm Tofu > Ginger Root
Ramen Cups > Shelled Edamame
Plain Bagels = Cream Cheese
Everything Bagels > Smoked Salmon
English Muffins > Salted Butter
Creamy Peanut Butter > Sandwich Bread
Grape Jelly > Texas Toast
Corn Flakes > Whole Milk
Honey Oat Rings > Reduced Fat Milk
Crisp Rice Cereal > Unsalted Butter
Almond Granola = Vanilla Yogurt
Rolled Oats > Ground Cinnamon
Instant Oatmeal > Brown Sugar
Buttermilk Pancake Mix > Large Eggs
Buttermilk Waffles = Maple Syrup
Smoked Bacon > Brown Eggs
Breakfast Links = Hash Brown Patties
Yellow Cake Mix > Egg Whites
Chocolate Frosting > Birthday Candles
Brownie Mix > Canola Oil
White Flour > Plain Kefir
Chocolate Chips > Half and Half
Cornbread Mix = Kidney Beans
Chili Powder = Diced Tomatoes
Angel Food Cake > Whipped Topping
Vanilla Bean Ice Cream = Sugar Cones
Vanilla Bean Ice Cream > Root Beer
Chocolate Ice Cream = Hot Fudge
Caesar Dressing = Romaine Hearts
Ranch Dressing > Broccoli Crowns
Italian Dressing > Bell Peppers
Garlic Croutons > Spring Mix
Coleslaw Mix > Mayonnaise
Chunk Light Tuna > Multigrain Loaf
Roast Turkey Slices > Rye Loaf
Prosciutto > French Baguette
Tomato Soup = String Cheese
Clam Chowder > Sourdough Loaf
Cream of Mushroom Soup = Cut Green Beans
Whole Chicken > Chicken Broth
Sea Scallops > Quinoa
Corned Beef Brisket > Russet Potatoes
Chipotle Peppers > Cilantro
Garbanzo Beans > Extra Virgin Olive Oil
Refried Beans > Yellow Onions
Diced Tomatoes > Garlic
Long Grain White Rice > Ground Turkey
Ground Coffee = Coffee Filters
Whole Bean Coffee > Sugar Cubes
Black Tea Bags = Clover Honey
Chai Concentrate > Oat Milk
Chocolate Sandwich Cookies > Chocolate Milk
London Gin = Tonic Water
White Tequila = Margarita Mix
Margarita Mix > Navel Oranges
Vodka > Cranberry Juice
Bloody Mary Mix > Tomato Juice
Aged Rum > Cola
Aged Rum = Mint Leaves
Pinot Noir > Roasted Almonds
Prosecco > Orange Juice
Lager > Pretzel Twists
Microwave Popcorn > Lemon Lime Soda
Diapers = Diaper Cream
Oat Baby Cereal > Infant Formula
Dry Cat Food = Clumping Cat Litter
Laundry Detergent > Tall Kitchen Bags
Dryer Sheets > Facial Tissue
Dish Soap = Kitchen Sponges
Paper Plates = Paper Napkins
Plastic Cups > Ginger Ale
Toothpaste > Hand Soap
Shampoo > Shave Gel
Cold Relief Caplets = Chicken Noodle Soup Bowl
Cough Drops > Chamomile Tea Bags
Balsamic Vinegar > Roma Tomatoes
Greek Yogurt > Muesli
Cheese Pizza > Club Soda
"""
